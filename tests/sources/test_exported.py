"""Exported programs read without torch, compared with torch's own view of the same program."""

from __future__ import annotations

import contextlib
import copy
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from models import hard
from torch import Tensor, nn
from versions import require

import assay
from assay.document.document import Document
from assay.errors import ReadError
from assay.sources.exported import archive as exported_archive
from assay.sources.exported.tree import UNKNOWN_CLASS
from assay.sources.open import open_source


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(8, 8, 3, padding=1)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout()

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu_(self.drop(self.norm(self.conv(x))))


class Model(nn.Module):
    """Tied weights, a module called twice, all kinds of tensors and a few unusual ops."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.embedding.weight
        self.block = Block()
        self.unused = nn.Linear(2, 2)
        self.register_buffer("scale", torch.ones(8, dtype=torch.float64), persistent=False)
        self.constant = torch.ones(8)

    def forward(self, tokens: Tensor, shift: Tensor) -> dict[str, Any]:
        x = self.embedding(tokens).transpose(1, 2)
        x = self.block(self.block(x)).transpose(1, 2) * self.constant + self.scale.to(torch.float32)
        left, right = torch.split(x, 4, -1)
        return {
            "logits": self.head(x),
            "rest": [left.max(-1).values, torch.cat([right, left + shift.unsqueeze(1).t()], -1)],
        }


@pytest.fixture(scope="module")
def model() -> Model:
    return Model().eval()


@pytest.fixture(scope="module")
def program(model: Model) -> Any:
    require("torch", "2.6", "exporting in-place ops")
    batch = torch.export.Dim("batch", min=2, max=64)
    inputs = (torch.arange(15).reshape(3, 5), torch.ones(4))
    return torch.export.export(model, inputs, dynamic_shapes=({0: batch}, None))


@pytest.fixture(scope="module")
def saved(program: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "model.pt2"
    torch.export.save(program, path)
    return path


@pytest.fixture(scope="module")
def document(saved: Path) -> Document:
    return read(saved)


def read(path):
    document = open_source(path).document
    assert document is not None
    return document


def operations(program: Any) -> list[Any]:
    """The ops in torch's own graph of the same program."""
    return [node for node in program.graph.nodes if isinstance(node.target, torch._ops.OpOverload)]


def export_case(name: str, folder: Path) -> tuple[nn.Module, Path]:
    """A hard case exported and saved."""
    model, inputs = hard.CASES[name]()
    args, kwargs = ((), inputs) if isinstance(inputs, dict) else (inputs, {})
    path = folder / f"{name}.pt2"
    torch.export.save(torch.export.export(model.eval(), args, kwargs), path)
    return model, path


def kinds(document: Document) -> list[Any]:
    return [document.kinds[op.kind] for op in document.ops]


def test_ops_are_those_of_the_live_graph(program: Any, document: Document):
    assert [kind.target for kind in kinds(document)] == [str(node.target) for node in operations(program)]


def test_output_types_are_those_of_the_live_graph(program: Any, document: Document):
    for kind, node in zip(kinds(document), operations(program), strict=True):
        outputs = node.meta["val"] if isinstance(node.meta["val"], (list, tuple)) else [node.meta["val"]]
        values = [value for value in outputs if value is not None]
        expected = [(tuple(int(n) for n in value.shape), str(value.dtype)[6:]) for value in values]
        assert [(output.type.shape, output.type.dtype) for output in kind.outputs] == expected
        strides = [None if value.is_contiguous() else tuple(map(int, value.stride())) for value in values]
        assert [output.type.strides for output in kind.outputs] == strides


def test_each_op_is_in_its_module(program: Any, document: Document):
    paths = [document.modules[document.calls[op.call].module].path for op in document.ops]
    stacks = [list(node.meta["nn_module_stack"].values()) for node in operations(program)]
    assert paths == [stack[-1][0] for stack in stacks]


def test_modules_are_the_models_own(model: Model, document: Document):
    rows = {row.path: row for row in document.modules}
    assert set(rows) == {path for path, _ in model.named_modules()}
    for path, module in model.named_modules():
        assert rows[path].class_name == (UNKNOWN_CLASS if path == "unused" else type(module).__name__)
        assert rows[path].class_path.endswith("" if path == "unused" else type(module).__qualname__)
    assert all(row.parent is None or row.parent < index for index, row in enumerate(document.modules))


def test_tensors_are_the_parameters_and_buffers_of_the_model(model: Model, document: Document):
    named = {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }
    rows = {name: row for row in document.tensors for name in row.names}
    assert set(rows) == set(named)
    for name, tensor in named.items():
        row = rows[name]
        assert (row.type.shape, row.type.dtype) == (tuple(tensor.shape), str(tensor.dtype)[6:])
        assert row.bytes == tensor.numel() * tensor.element_size()
        assert row.role == ("parameter" if isinstance(tensor, nn.Parameter) else "buffer")
        owner, _, local = name.rpartition(".")
        holder = next(module for module in document.modules if module.path == owner)
        assert document.tensors[holder.tensors[local]] is row


def test_tied_weights_are_one_tensor(document: Document):
    (tied,) = [row for row in document.tensors if len(row.names) > 1]
    assert set(tied.names) == {"embedding.weight", "head.weight"}


def test_views_of_one_storage_are_marked_as_shared(tmp_path: Path):
    require("torch", "2.9", "an archive that records shared storages")
    _, path = export_case("weights_of_one_storage", tmp_path)
    rows = {row.names[0]: row for row in read(path).tensors}
    assert (rows["first"].shares_storage_with, rows["second"].shares_storage_with) == (None, 0)


def test_operands_have_names_roles_and_attributes(document: Document):
    by_target = {kind.target: kind for kind in kinds(document)}
    conv = by_target["aten.conv1d.default"]
    assert conv.name == "torch.conv1d"
    assert [(item.name, item.role) for item in conv.inputs] == [
        ("input", "activation"),
        ("weight", "parameter"),
        ("bias", "parameter"),
    ]
    assert conv.attributes == {"stride": [1], "padding": [1]}
    norm = by_target["aten.batch_norm.default"]
    assert [item.role for item in norm.inputs] == ["activation", "parameter", "parameter", "buffer", "buffer"]
    assert norm.attributes["eps"] == 1e-5
    assert norm.attributes["training"] is False
    assert by_target["aten.to.dtype"].attributes["dtype"] == "float32"
    assert [item.name for item in by_target["aten.cat.default"].inputs] == ["tensors[0]", "tensors[1]"]
    assert by_target["aten.embedding.default"].inputs[1].role == "input"
    relu = by_target["aten.relu_.default"]
    assert (relu.inputs[0].written, relu.outputs[0].alias) == (True, 0)
    assert not conv.inputs[0].written


def test_a_module_called_twice_has_two_calls(document: Document):
    paths = [document.modules[call.module].path for call in document.calls]
    assert paths.count("block") == paths.count("block.conv") == 2
    assert paths.count("") == 1
    blocks = [number for number, path in enumerate(paths) if path == "block"]
    convolutions = [call.parent for call, path in zip(document.calls, paths, strict=True) if path == "block.conv"]
    assert convolutions == blocks


def test_calls_have_the_types_that_flow_through_them(document: Document):
    calls = {document.modules[call.module].path: call for call in document.calls}
    assert [item.shape for item in calls["block"].inputs] == [(3, 8, 5)]
    assert [item.shape for item in calls["head"].outputs] == [(3, 5, 20)]
    assert [item.shape for item in calls[""].inputs] == [(3, 5), (4,)]
    assert [item.shape for item in calls[""].outputs] == [(3, 5, 20), (3, 5), (3, 5, 8)]


def test_the_run_lists_its_assumptions(document: Document):
    assert document.run.mode == "none"
    assert [(item.name, item.type.shape) for item in document.run.inputs] == [("tokens", (3, 5)), ("shift", (4,))]
    assert any("= 3" in line and "dynamic" in line for line in document.run.assumptions)
    assert document.machine.torch == torch.__version__


def test_assay_open_reads_it(saved: Path, document: Document):
    opened = assay.open(saved)
    assert opened.document == document
    assert (opened.origin.kind, opened.origin.name) == ("exported", "model.pt2")


def test_reading_needs_no_torch(saved: Path):
    code = (
        "import sys; from pathlib import Path; from assay.sources.open import open_source; "
        "assert open_source(sys.argv[1]).document.ops; assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code, str(saved)], check=False).returncode == 0


def test_wrappers_are_inlined_and_control_flow_is_noted(tmp_path: Path):
    require("torch", "2.6", "exporting autocast")
    _, path = export_case("autocast", tmp_path)
    document = read(path)
    linear = next(op for op in document.ops if document.kinds[op.kind].target == "aten.linear.default")
    assert document.modules[document.calls[linear.call].module].path == "inner"
    assert [item.role for item in document.kinds[linear.kind].inputs] == ["input", "parameter", "parameter"]
    assert [(item.shape, item.dtype) for item in document.calls[linear.call].outputs] == [((2, 8), "bfloat16")]
    _, path = export_case("torch_cond", tmp_path)
    document = read(path)
    assert document.kinds[document.ops[-1].kind].target == "higher_order.cond"
    assert any("control-flow" in line for line in document.run.assumptions)


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path: Path, content: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return path


def description(saved: Path) -> dict[str, Any]:
    return json.loads(members(saved)["model/models/model.json"])


def test_the_older_layout_is_read_too(saved: Path, document: Document, tmp_path: Path):
    program = json.dumps(description(saved)).encode()
    old = write(tmp_path / "old.pt2", {"version": b"8.3", "serialized_exported_program.json": program})
    old_document = read(old)
    assert old_document.ops == document.ops
    assert {name for row in old_document.tensors for name in row.names} >= {
        "embedding.weight",
        "block.norm.running_mean",
    }
    assert any("share" in line for line in old_document.run.assumptions)


def test_unnumbered_repeats_are_distinguished_by_the_ops_between_them(saved: Path, tmp_path: Path):
    model = description(saved)
    for node in model["graph_module"]["graph"]["nodes"]:
        node["metadata"]["nn_module_stack"] = node["metadata"]["nn_module_stack"].replace("@1", "")
    document = read(write(tmp_path / "plain.pt2", {"a/models/model.json": json.dumps(model).encode()}))
    paths = [document.modules[call.module].path for call in document.calls]
    assert paths.count("block.conv") == 2


def test_a_size_without_an_example_is_noted(saved: Path, tmp_path: Path):
    text = json.dumps(description(saved)).replace('"hint": {"as_int": 3}', '"hint": null')
    document = read(write(tmp_path / "unknown.pt2", {"a/models/model.json": text.encode()}))
    assert any("without an example" in line for line in document.run.assumptions)


def refused(path: Path) -> str:
    with pytest.raises(ReadError) as caught:
        read(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def test_files_that_are_not_programs_are_rejected(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    content = members(saved)
    json_member = "model/models/model.json"
    text = tmp_path / "text.pt2"
    text.write_text("hello")
    assert "not a file that Assay reads" in refused(text)
    refused(tmp_path / "missing.pt2")
    cut = tmp_path / "cut.pt2"
    cut.write_bytes(saved.read_bytes()[:-400])
    refused(cut)
    cut.write_bytes(saved.read_bytes()[:5000])
    assert "truncated" in refused(cut)
    assert "zip archive without data.pkl" in refused(write(tmp_path / "empty.pt2", {"readme": b""}))
    assert "AOTInductor" in refused(write(tmp_path / "aoti.pt2", {"m/data/aotinductor/model/x.so": b""}))
    refused(write(tmp_path / "half.pt2", {json_member: content[json_member][:500]}))
    refused(write(tmp_path / "list.pt2", {json_member: b"[1, 2]"}))
    deep = b'{"graph_module":' + b"[" * 200_000
    refused(write(tmp_path / "deep.pt2", {json_member: deep}))
    newer = {**description(saved), "schema_version": {"major": 99, "minor": 0}}
    assert "newer torch" in refused(write(tmp_path / "new.pt2", {json_member: json.dumps(newer).encode()}))
    monkeypatch.setattr(exported_archive, "LARGEST_JSON", 100)
    assert "the limit is 100" in refused(saved)


def test_a_flipped_byte_is_detected(saved: Path, tmp_path: Path):
    data = bytearray(saved.read_bytes())
    position = data.find(b'"graph_module"') + 40
    data[position] ^= 0xFF
    damaged = tmp_path / "flipped.pt2"
    damaged.write_bytes(data)
    assert "damaged" in refused(damaged)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_change_of_the_description_is_read_or_rejected(saved: Path, tmp_path: Path, data: st.DataObject):
    changed = copy.deepcopy(description(saved))
    here: Any = changed
    for _ in range(data.draw(st.integers(1, 9))):
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(here[key], (dict, list)) or not here[key]:
            break
        here = here[key]
    keys = list(here) if isinstance(here, dict) else list(range(len(here)))
    key = data.draw(st.sampled_from(keys))
    junk = st.sampled_from(
        [None, 0, -1, "", "x", [], {}, [None], {"as_int": "x"}, {"as_tensor": {"name": "missing"}}]
    )
    if data.draw(st.booleans()):
        del here[key]
    else:
        here[key] = data.draw(junk)
    path = write(tmp_path / "changed.pt2", {"a/models/model.json": json.dumps(changed).encode()})
    with contextlib.suppress(ReadError):
        assert isinstance(read(path), Document)
