"""The payload of the graph view: paths, figures and size."""

from __future__ import annotations

import gzip

import msgspec
import pytest
import torch
from handmade import conv_stack
from torch import Tensor, nn

import assay
from assay.document.document import Document
from assay.document.provenance import Counted, Figure
from assay.document.rows import Call, Module, Op, Operand, OpKind, Storage, TensorType
from assay.document.timing import ModuleTime, Timing
from assay.views.html.graph import graph

X = torch.ones(2, 8)


class Tower(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(layers))
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x * 2)


def timed(document: Document) -> Document:
    """The document with the time of each module: its index in milliseconds."""
    times = [ModuleTime(1, index / 1e3, index / 1e3) for index in range(len(document.modules))]
    return msgspec.structs.replace(document, timing=Timing(times, whole=Figure(1.0, Counted("by hand"))))


def test_a_path_is_relative_to_its_level():
    root, layer = graph(assay.observe(Tower(3), X)).levels
    assert [(node.name, node.path, node.run) for node in root.nodes] == [
        ("input", None, 1),
        ("layers.0–2", ".layers.0", 3),
        ("mul", None, 1),
        ("head", ".head", 1),
        ("output", None, 1),
    ]
    assert layer.paths == ["layers.0", "layers.1", "layers.2"]
    assert [node.path for node in layer.nodes] == [None, ".0", ".1", None]


def test_the_path_of_a_module_elsewhere_is_absolute():
    class Borrows(nn.Module):
        def __init__(self, other: nn.Module) -> None:
            super().__init__()
            self.mine = nn.Linear(8, 8)
            self.other = [other]

        def forward(self, x: Tensor) -> Tensor:
            return self.other[0](self.mine(x))

    shared = nn.Linear(8, 8)
    levels = graph(assay.observe(nn.Sequential(shared, Borrows(shared)), X)).levels
    assert [node.path for node in levels[1].nodes] == [None, ".mine", "0", None]


def test_names_from_the_model_show_what_they_hide():
    model = nn.Sequential()
    model.add_module("\u202eevil\n", nn.Linear(8, 8))
    model.add_module("</script>", nn.ReLU())
    names = [(node.name, node.path) for node in graph(assay.observe(model, X)).levels[0].nodes[1:3]]
    assert names == [(r"\u202eevil\n", r".\u202eevil\n"), ("</script>", ".</script>")]


def test_time_and_flops_of_a_node_are_those_of_all_its_members():
    document = timed(assay.observe(Tower(3), X))
    index = {module.path: at for at, module in enumerate(document.modules)}
    root, layer = graph(document).levels
    seconds = sum(index[f"layers.{number}"] for number in range(3)) / 1e3
    assert root.time_s.rows == [[None, pytest.approx(seconds), None, index["head"] / 1e3, None]]
    linear = 2 * 2 * 8 * 8 + 2 * 8
    assert root.flops.rows == [[None, 3 * (linear + 2 * 8), 2 * 8, 2 * 2 * 8 * 2 + 2 * 2, None]]
    assert [row[1] for row in layer.time_s.rows] == [index[f"layers.{number}.0"] / 1e3 for number in range(3)]
    assert not layer.time_s.mean
    assert len(layer.flops.rows) == 1


def test_many_modules_alike_have_their_mean_time():
    document = timed(assay.observe(Tower(70), X))
    layer = graph(document).levels[1]
    times = [
        document.timing.modules[at].total_s for at, each in enumerate(document.modules) if each.path[-2:] == ".0"
    ]
    assert layer.time_s.mean
    assert layer.time_s.rows[0][1] == pytest.approx(sum(times[1:]) / 70, rel=0.01)


def test_the_time_of_one_call_of_several_is_their_mean():
    model = nn.Sequential(nn.Linear(8, 8), relu := nn.ReLU(), nn.Linear(8, 8), relu)
    document = assay.observe(model, X)
    times = [ModuleTime(2 if module.class_name == "ReLU" else 1, 0.004, 0.004) for module in document.modules]
    level = graph(msgspec.structs.replace(document, timing=Timing(times))).levels[0]
    assert level.time_s.rows == [[None, 0.004, 0.002, 0.004, 0.002, None]]


def test_figures_that_are_unknown_are_absent():
    level = graph(conv_stack()).levels[0]
    assert (level.time_s, level.flops) == (None, None)


def test_a_document_without_reads_says_so():
    assert not graph(conv_stack()).recorded
    assert graph(assay.observe(Tower(3), X)).recorded


def test_a_long_list_of_ops_is_cut_and_says_so():
    kinds = [OpKind(f"torch.op{i}", f"aten.op{i}.default", {}, (), ()) for i in range(1500)]
    ops = [Op(index, 0) for index in range(1500)]
    document = Document(modules=[Module("", "Flat", "Flat", None)], calls=[Call(0, None)], kinds=kinds, ops=ops)
    (level,) = graph(document).levels
    assert (len(level.nodes), level.more) == (1000, 500)


def experts(layers: int, count: int) -> Document:
    """Layers of experts, each a module with three matrices, as a recorded pass."""
    row = TensorType((4, 8), "float32")
    kind = OpKind("torch.relu", "aten.relu.default", {}, (Operand("self", row),), (Operand("output", row),))
    modules, calls, ops = [Module("", "Moe", "Moe", None)], [Call(0, None, (row,), (row,))], []
    storages = [Storage(128, 0, role="input")]
    for layer in range(layers):
        above, around = len(modules), len(calls)
        modules.append(Module(f"layers.{layer}", "Layer", "Layer", 0))
        calls.append(Call(above, 0, (row,), (row,)))
        for expert in range(count):
            path, inner, inside = f"layers.{layer}.experts.{expert}", len(modules), len(calls)
            modules.append(Module(path, "Expert", "Expert", above))
            calls.append(Call(inner, around, (row,), (row,)))
            for name in ("gate", "up", "down"):
                modules.append(Module(f"{path}.{name}", "Linear", "Linear", inner))
                calls.append(Call(len(modules) - 1, inside, (row,), (row,)))
                ops.append(Op(0, len(calls) - 1, (len(storages) - 1,), (len(storages),)))
                storages.append(Storage(128, len(ops) - 1, len(ops)))
    storages[-1] = Storage(128, len(ops) - 1)
    return Document(modules=modules, calls=calls, kinds=[kind], ops=ops, storages=storages)


def test_the_payload_of_100_000_modules_is_small():
    document = experts(60, 416)
    assert len(document.modules) > 99_000
    found = graph(document)
    assert [len(level.paths) for level in found.levels] == [1, 60, 60 * 416]
    assert [[node.name for node in level.nodes] for level in found.levels[:2]] == [
        ["input", "layers.0–59", "output"],
        ["input", "experts.0–415", "output"],
    ]
    assert len(gzip.compress(msgspec.json.encode(found))) < 150_000
