"""The data flow of each module level: edges stated by hand for small models, and properties of hard ones."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from handmade import conv_stack
from models import hard
from torch import Tensor, nn

import assay
from assay.analysis.flow import is_view
from assay.analysis.levels import INPUT, MODULE, OP, Flow, Level, levels
from assay.document.document import Document
from assay.document.tree import children

X = torch.linspace(-1, 1, 16).reshape(2, 8)
RELABELLED = ("detach_", "squeeze_")
"""Ops in place that write nothing and are passed through like views."""


def level_of(model: nn.Module, *inputs: Tensor, path: str = "") -> Level:
    return next(each for each in levels(assay.observe(model.eval(), inputs or (X,))) if path in each.paths)


def edges(level: Level) -> set[tuple[str, str]]:
    return {
        (level.nodes[flow.source].name, level.nodes[target].name) for flow in level.flows for target in flow.targets
    }


def flow(level: Level, source: str) -> Flow:
    (found,) = (flow for flow in level.flows if level.nodes[flow.source].name == source)
    return found


class Model(nn.Module):
    """Two layers and a forward pass given as a function of the model and its inputs."""

    def __init__(self, forward, **modules: nn.Module):
        super().__init__()
        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)
        for name, module in modules.items():
            self.add_module(name, module)
        self._forward = forward

    def forward(self, *inputs: Tensor) -> Tensor:
        return self._forward(self, *inputs)


def chain(model: nn.Module, x: Tensor) -> Tensor:
    for layer in model.layers:
        x = layer(x)
    return x


def test_a_residual_connection_goes_around_its_branch():
    level = level_of(Model(lambda m, x: x + m.one(x)))
    assert edges(level) == {("input", "one"), ("input", "add"), ("one", "add"), ("add", "output")}
    assert flow(level, "input").targets == (1, 2)
    assert (flow(level, "one").shape, flow(level, "one").dtype, flow(level, "one").bytes) == ("2x8", "float32", 64)


def test_two_inputs_are_two_nodes_with_their_names():
    level = level_of(Model(lambda m, x, y: m.one(x) * m.two(y)), X, X + 1)
    assert edges(level) == {
        ("args[0]", "one"),
        ("args[1]", "two"),
        ("one", "mul"),
        ("two", "mul"),
        ("mul", "output"),
    }


def test_each_call_of_a_shared_module_is_a_node():
    level = level_of(Model(lambda m, x: m.one(m.two(m.one(x)))))
    assert edges(level) == {
        ("input", "one (1 of 2)"),
        ("one (1 of 2)", "two"),
        ("two", "one (2 of 2)"),
        ("one (2 of 2)", "output"),
    }


def test_an_op_in_place_produces_what_is_read_after_it():
    def forward(model: nn.Module, x: Tensor) -> Tensor:
        y = model.one(x)
        before = y.sum()
        y.relu_()
        return model.two(y) + before

    assert edges(level_of(Model(forward))) == {
        ("input", "one"),
        ("one", "sum"),
        ("one", "relu_"),
        ("relu_", "two"),
        ("two", "add"),
        ("sum", "add"),
        ("add", "output"),
    }


def test_a_view_made_before_a_write_reads_what_was_written():
    def forward(model: nn.Module, x: Tensor) -> Tensor:
        y = model.one(x)
        view = y.view(4, 4)
        y.relu_()
        return view.sigmoid()

    assert edges(level_of(Model(forward))) == {
        ("input", "one"),
        ("one", "relu_"),
        ("relu_", "sigmoid"),
        ("sigmoid", "output"),
    }


def test_writes_into_parts_of_a_tensor_follow_each_other():
    def forward(model: nn.Module, x: Tensor) -> Tensor:
        both = x.new_empty(4, 8)
        both[:2] = model.one(x)
        both[2:] = model.two(x)
        return both.sigmoid()

    level = level_of(Model(forward))
    names = [node.name for node in level.nodes]
    assert names == ["input", "new_empty", "one", "copy_", "two", "copy_", "sigmoid", "output"]
    found = {(flow.source, target) for flow in level.flows for target in flow.targets}
    assert found == {(0, 1), (0, 2), (0, 4), (1, 3), (2, 3), (3, 5), (4, 5), (5, 6), (6, 7)}


def test_branches_that_are_concatenated():
    level = level_of(Model(lambda m, x: torch.cat([m.one(x), m.two(x), x], -1)))
    assert edges(level) == {
        ("input", "one"),
        ("input", "two"),
        ("input", "cat"),
        ("one", "cat"),
        ("two", "cat"),
        ("cat", "output"),
    }
    assert flow(level, "cat").shape == "2x24"


def test_equal_layers_in_a_loop_are_one_node():
    layers = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(4))
    level = level_of(Model(lambda m, x: m.one(chain(m, x)), layers=layers))
    assert edges(level) == {("input", "layers.0–3"), ("layers.0–3", "one"), ("one", "output")}
    assert [(node.name, node.detail, node.run) for node in level.nodes if node.run > 1] == [
        ("layers.0–3", "Sequential", 4)
    ]


def test_the_odd_layer_is_separate():
    widths = [8, 8, 8, 16, 8, 8, 8]
    layers = nn.ModuleList(nn.Sequential(nn.Linear(8, width), nn.Linear(width, 8)) for width in widths)
    names = [node.name for node in level_of(Model(chain, layers=layers)).nodes]
    assert names == ["input", "layers.0–2", "layers.3", "layers.4–6", "output"]


def test_layers_that_alternate_are_two_nodes_and_the_next_turn_leads_back():
    def forward(model: nn.Module, x: Tensor) -> Tensor:
        for layer, norm in zip(model.layers, model.norms, strict=True):
            x = norm(layer(x))
        return x

    def several(make):
        return nn.ModuleList(make() for _ in range(5))

    model = Model(forward, layers=several(lambda: nn.Linear(8, 8)), norms=several(lambda: nn.LayerNorm(8)))
    level = level_of(model)
    assert [node.name for node in level.nodes] == ["input", "layers.0–4", "norms.0–4", "output"]
    found = {(flow.source, target): flow.tensors for flow in level.flows for target in flow.targets}
    assert found == {(0, 1): 1, (1, 2): 5, (2, 1): 4, (2, 3): 1}


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

    def forward(self, x: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = torch.arange(number % 2 + 1)
            out.index_add_(0, rows, expert(x[rows]))
        return out


def test_a_loop_with_ops_between_modules_is_folded_by_its_turns():
    level = level_of(Experts())
    assert [(node.name, node.run) for node in level.nodes] == [
        ("input", 1),
        ("zeros_like", 1),
        ("arange", 6),
        ("index", 6),
        ("experts.0–5", 6),
        ("index_add_", 6),
        ("output", 1),
    ]
    assert flow(level, "index").shape == "1–2x8"
    assert (flow(level, "index").bytes, flow(level, "index").tensors) == ((1 + 2) * 3 * 8 * 4, 6)


def test_views_are_passed_through_and_counted():
    level = level_of(Model(lambda m, x: m.two(m.one(x).view(2, 2, 4).transpose(0, 1).transpose(0, 1).reshape(2, 8))))
    assert edges(level) == {("input", "one"), ("one", "two"), ("two", "output")}
    assert level.views == 4


def test_a_module_that_only_makes_a_view_is_a_node_of_the_path():
    model = nn.Sequential(nn.Conv2d(1, 2, 2), nn.Flatten(), nn.Dropout(), nn.Linear(8, 3))
    level = level_of(model, torch.ones(1, 1, 3, 3))
    assert edges(level) == {("input", "0"), ("0", "1"), ("1", "2"), ("2", "3"), ("3", "output")}
    assert flow(level, "1").shape == "1x8"


def test_a_view_inside_a_module_does_not_claim_what_goes_around_it():
    class Norm(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.to(torch.float32).detach().mul(2)

    level = level_of(Model(lambda m, x: (y := m.one(x)) + m.norm(y), norm=Norm()))
    assert edges(level) == {("input", "one"), ("one", "norm"), ("one", "add"), ("norm", "add"), ("add", "output")}


def test_a_view_that_a_module_does_not_return_stays_inside():
    class Summed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.view(4, 4).sum()

    level = level_of(Model(lambda m, x: (y := m.one(x)).view(4, 4) / m.summed(y), summed=Summed()))
    assert edges(level) == {("input", "one"), ("one", "summed"), ("one", "div"), ("summed", "div"), ("div", "output")}


def test_a_result_that_is_read_in_two_shapes_is_returned_once():
    def forward(model: nn.Module, x: Tensor) -> Tensor:
        y = model.one(x)
        view = y.view(4, 4)
        model.block(y)
        return view.sum() + y.sum()

    block = nn.Sequential(nn.ReLU(inplace=True), nn.Hardtanh(inplace=True))
    level = level_of(Model(forward, block=block), path="block")
    assert [(flow.source, flow.targets) for flow in level.flows] == [(0, (1,)), (1, (2,)), (2, (3,))]


def test_a_parameter_is_shown_where_an_own_op_reads_it():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(8, 8)
            self.scale = nn.Parameter(torch.ones(8))

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x) * self.scale.view(1, 8)

    level = level_of(nn.Sequential(Scaled(), nn.ReLU()), path="0")
    assert edges(level) == {("input", "inner"), ("inner", "mul"), ("scale", "mul"), ("mul", "output")}
    assert [(node.kind, node.detail) for node in level.nodes if node.name == "scale"] == [("tensor", "parameter")]


def test_modules_without_ops_are_named():
    assert level_of(Model(lambda m, x: m.idle(m.one(x)), idle=nn.Identity())).idle == ("idle",)


def test_modules_with_the_same_data_flow_share_a_level():
    def block() -> nn.Module:
        return nn.Sequential(nn.Linear(8, 8), nn.ReLU())

    found = levels(assay.observe(nn.Sequential(block(), nn.Linear(8, 4), nn.Linear(4, 8), block()), X))
    assert [level.paths for level in found] == [("",), ("0", "3")]
    assert [len(ran) for ran in found[1].ran] == [2, 2]
    other = levels(
        assay.observe(nn.Sequential(block(), nn.Linear(8, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU())), X)
    )
    assert [level.paths for level in other] == [("",), ("0",), ("2",)]


def test_a_level_is_not_shared_if_results_differ_that_nobody_reads():
    class Pair(nn.Module):
        def __init__(self, size: int):
            super().__init__()
            self.size = size

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x * 2, torch.zeros(self.size)

    class First(nn.Module):
        def __init__(self, size: int):
            super().__init__()
            self.pair = Pair(size)

        def forward(self, x: Tensor) -> Tensor:
            return self.pair(x)[0].relu()

    found = levels(assay.observe(nn.Sequential(nn.Linear(8, 8), First(3), First(4)), X))
    shapes = {level.paths: level.nodes[1].shape for level in found}
    assert (shapes["1",], shapes["2",]) == ("2x8, 3", "2x8, 4")


def test_a_module_called_again_shows_its_first_call():
    level = level_of(hard.CASES["shared_module"]()[0], path="block")
    assert level.calls == 3
    assert [node.name for node in level.nodes] == ["input", "0", "1", "output"]


def test_a_document_without_reads_has_nodes_and_no_flows():
    (level,) = levels(conv_stack())
    assert [node.name for node in level.nodes] == ["0", "1", "2", "3", "4", "5"]
    assert level.flows == ()


def test_a_document_without_ops_has_no_levels():
    assert levels(Document()) == []


def observed(name: str) -> Document:
    model, inputs = hard.CASES[name]()
    return assay.observe(model, (tuple(inputs), {}) if isinstance(inputs, tuple) else inputs)


def span(document: Document, item: int) -> tuple[int, int]:
    """The first and last op of an op or `~call`."""
    if item >= 0:
        return item, item
    inside = {~item}
    for index, call in enumerate(document.calls):
        if call.parent in inside:
            inside.add(index)
    ops = [index for index, op in enumerate(document.ops) if op.call in inside]
    return ops[0], ops[-1]


@pytest.mark.parametrize("name", sorted(hard.CASES))
def test_the_source_of_each_edge_ran_before_its_target(name):
    document = observed(name)
    for level in levels(document):
        for ran in level.ran:
            spans = [[span(document, ran[place]) for place in node.members] for node in level.nodes]
            for flow in level.flows:
                for target in flow.targets:
                    if spans[flow.source] and spans[target]:
                        assert min(spans[flow.source])[0] < max(spans[target])[1]
                    if flow.source >= target:
                        assert level.nodes[flow.source].run > 1 < level.nodes[target].run


@pytest.mark.parametrize("name", sorted(hard.CASES))
def test_every_op_that_is_not_a_view_is_in_one_node_of_its_level(name):
    document = observed(name)
    shown = {
        path: (level, ran) for level in levels(document) for path, ran in zip(level.paths, level.ran, strict=True)
    }
    first = {call.module: index for index, call in reversed(list(enumerate(document.calls)))}
    own: dict[int, list[int]] = {module: [] for module in range(len(document.modules))}
    for index, op in enumerate(document.ops):
        kind = document.kinds[op.kind]
        if (
            not is_view(kind)
            and kind.target.split(".")[1] not in RELABELLED
            and op.call in (-1, first[document.module_of(op)])
        ):
            own[document.module_of(op)].append(index)
    for module, ops in own.items():
        path = document.modules[module].path
        if path not in shown:
            assert len(ops) <= 1
            continue
        level, ran = shown[path]
        listed = Counter(ran[place] for node in level.nodes for place in node.members)
        assert set(listed.values()) == {1}
        assert sorted(item for item in listed if item >= 0) == ops


class Passed:
    """Which child's output another child of the same module receives, seen by torch's own hooks."""

    def __init__(self, model: nn.Module) -> None:
        self.edges: set[tuple[str, str, str]] = set()
        self._makers: list[tuple[Tensor, str]] = []
        for path, module in model.named_modules():
            module.register_forward_pre_hook(lambda _, args, path=path: self._receive(path, args))
            module.register_forward_hook(lambda _, __, result, path=path: self._makers.append((result, path)))

    def _receive(self, path: str, args: tuple[Tensor, ...]) -> None:
        above = path.rpartition(".")[0]
        for made, maker in self._makers:
            if any(made is each for each in args) and maker.rpartition(".")[0] == above != maker:
                self.edges.add((above, maker, path))


class Net(nn.Module):
    """A stem, residual blocks with a shared activation, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
        self.block = nn.Sequential(nn.Conv2d(4, 4, 1), nn.GELU(), nn.Conv2d(4, 4, 1))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flat = nn.Flatten()
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        return self.head(self.flat(self.pool(x + self.block(x))))


def test_hooks_agree_on_what_children_pass_to_each_other():
    image = torch.ones(1, 3, 6, 6)
    net = Net().eval()
    document = assay.observe(net, image)
    seen = Passed(net)
    with torch.no_grad():
        net(image)
    found = set()
    for level in levels(document):
        path = level.paths[0]
        prefix = f"{path}." if path else ""
        found |= {
            (path, prefix + level.nodes[flow.source].name, prefix + level.nodes[target].name)
            for flow in level.flows
            for target in flow.targets
            if level.nodes[flow.source].kind == level.nodes[target].kind == MODULE
        }
    assert found == seen.edges
    assert len(found) == 7


def test_all_modules_with_inner_structure_have_a_level():
    document = assay.observe(Net().eval(), torch.ones(1, 3, 6, 6))
    inner = {document.modules[index].path for index, below in enumerate(children(document.modules)) if below}
    assert {path for level in levels(document) for path in level.paths} == inner
    kinds = {node.kind for level in levels(document) for node in level.nodes}
    assert kinds == {MODULE, OP, INPUT, "output"}
