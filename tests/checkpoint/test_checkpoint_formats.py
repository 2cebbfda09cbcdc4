"""TorchScript, exported programs, distributed checkpoints, GGUF and the oldest torch.save format (tar)."""

from __future__ import annotations

import io
import pickle
import struct
import warnings

import pytest
import torch
import torch.distributed.checkpoint as dcp
from checkpoint_files import assert_same, gguf_file, gguf_text, tar_file, tensor_of

from assay.checkpoint.open import open_checkpoint
from assay.checkpoint.reading import RangeReader
from assay.errors import ReadError


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 3)
        self.stack = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
        self.register_buffer("offset", torch.ones(3, dtype=torch.float64))

    def forward(self, x):
        y = self.stack(self.fc(x))
        if bool(y.sum() > 0):
            y = y + self.offset.sum()
        return y * torch.tensor([1.0, 2.0, 3.0])


@pytest.mark.parametrize("make", ["script", "trace"])
def test_the_modules_tensors_and_graph_of_torchscript(tmp_path, make):
    path = tmp_path / "m.bin"
    model = Small()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing warns about the branch, which is intended here
        scripted = torch.jit.script(model) if make == "script" else torch.jit.trace(model, torch.ones(1, 4))
    scripted.save(path)
    checkpoint = open_checkpoint(path)
    assert checkpoint.format == "torchscript"
    found = {name: entry for entry in checkpoint.entries for name in entry.names}
    constants = [name for name in found if name.startswith("CONSTANTS.")]
    state = torch.jit.load(path).state_dict()
    assert set(found) == set(state) | set(constants)
    assert all(torch.equal(tensor_of(found[name]), value) for name, value in state.items())
    if make == "trace":
        assert torch.equal(tensor_of(found[constants[0]]), torch.tensor([1.0, 2.0, 3.0]))
    paths = {row.path: row.class_path.rpartition(".")[2] for row in checkpoint.modules}
    assert paths == {name: type(part).__name__ for name, part in model.named_modules()}
    calls = {call.target for function in checkpoint.functions for call in function.calls}
    assert {"self.fc.forward", "self.stack.forward", "self.0.forward", "torch.linear", "torch.mul"} <= calls
    assert checkpoint.globals == ()


def test_the_torchscript_graph_has_calls_with_their_arguments(tmp_path):
    path = tmp_path / "m.pt"
    torch.jit.script(Small()).save(path)
    # Compiling a class again in one process inserts a number into its name; the last parts stay the same.
    functions = {".".join(each.name.split(".")[-2:]): each for each in open_checkpoint(path).functions}
    linear = functions["Linear.forward"]
    assert linear.arguments == ("self", "input")
    (call,) = linear.calls
    assert (call.target, call.arguments) == ("torch.linear", ("input", "self.weight", "self.bias"))
    forward = functions["Small.forward"]
    numbered = [(place, part) for place, call in enumerate(forward.calls) for part in call.arguments if "%" in part]
    assert numbered
    assert all(int(part.strip("%()[]").partition(",")[0]) < place for place, part in numbered)


def test_the_weights_of_an_exported_program(tmp_path):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(4, 4, dtype=torch.bfloat16)
            self.b = torch.nn.Linear(4, 4, dtype=torch.bfloat16)
            self.b.weight = self.a.weight
            self.register_buffer("scale", torch.arange(3))
            self.turned = torch.nn.Parameter(torch.randn(3, 2).t())

        def forward(self, x):
            return self.b(self.a(x)) * self.scale.sum(), self.turned + torch.tensor([5.0, 6.0, 7.0])

    path = tmp_path / "p.pt2"
    program = torch.export.export(Tied(), (torch.ones(1, 4, dtype=torch.bfloat16),))
    torch.export.save(program, path)
    checkpoint = open_checkpoint(path)
    assert checkpoint.format == "pt2"
    loaded = torch.export.load(path)
    tensors = {name: value for name, value in loaded.constants.items() if isinstance(value, torch.Tensor)}
    assert_same(checkpoint, {**loaded.state_dict, **tensors})
    assert ("a.weight", "b.weight") in [entry.names for entry in checkpoint.entries]


@pytest.fixture
def saved(tmp_path):
    """The folder of a distributed checkpoint, and its tensors."""
    state = {"model": {"w": torch.randn(6, 4), "b": torch.randn(3).bfloat16()}, "step": 3, "scalar": torch.tensor(2)}
    dcp.save(state, checkpoint_id=tmp_path / "dcp", no_dist=True)
    return tmp_path / "dcp", {
        "model.w": state["model"]["w"],
        "model.b": state["model"]["b"],
        "scalar": state["scalar"],
    }


def test_a_distributed_checkpoint(saved):
    folder, expected = saved
    checkpoint = open_checkpoint(folder)
    assert checkpoint.format == "dcp"
    assert_same(checkpoint, expected)
    assert checkpoint.metadata["other"] == ["step"]
    assert checkpoint.globals == ()


def test_a_tensor_in_several_pieces_is_listed_by_its_slices(saved):
    """Chunks of two ranks, described as torch's planner would."""
    folder, _ = saved
    metadata = dcp.FileSystemReader(folder).read_metadata()
    weight = torch.arange(24.0).reshape(6, 4)
    infos, data = {}, b""
    for first, last in ((0, 4), (4, 6)):
        buffer = io.BytesIO()
        torch.save(weight[first:last].clone(), buffer)
        index = dcp.metadata.MetadataIndex("model.w", [first, 0])
        infos[index] = type(next(iter(metadata.storage_data.values())))("part.distcp", len(data), buffer.tell())
        data += buffer.getvalue()
    (folder / "part.distcp").write_bytes(data)
    chunk = dcp.metadata.ChunkStorageMetadata
    metadata.state_dict_metadata["model.w"].chunks[:] = [
        chunk(torch.Size([0, 0]), torch.Size([4, 4])),
        chunk(torch.Size([4, 0]), torch.Size([2, 4])),
    ]
    kept = {key: value for key, value in metadata.storage_data.items() if key.fqn != "model.w"}
    metadata.storage_data = {**kept, **infos}
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))
    found = {entry.names[0]: entry for entry in open_checkpoint(folder).entries}
    assert torch.equal(tensor_of(found["model.w[0:4, 0:4]"]), weight[:4])
    assert torch.equal(tensor_of(found["model.w[4:6, 0:4]"]), weight[4:])
    assert open_checkpoint(folder).metadata["sharded"] == {"model.w": {"shape": [6, 4], "parts": 2}}


def test_the_error_for_a_missing_distcp_file(saved):
    folder, _ = saved
    (folder / "__0_0.distcp").rename(folder / "elsewhere")
    with pytest.raises(ReadError, match=r"__0_0\.distcp is missing"):
        open_checkpoint(folder)


# GGUF


def test_gguf_tensors_values_and_block_types(tmp_path):
    weight = torch.arange(12, dtype=torch.float16).reshape(3, 4)
    blocks = bytes(18 * 4)
    vocabulary = struct.pack("<IQ", 8, 3000) + b"".join(gguf_text(f"token{i}") for i in range(3000))
    path = gguf_file(
        tmp_path / "m.gguf",
        [("w", (4, 3), 1, 0), ("q", (64, 2), 2, 32), ("b", (2,), 30, 128), ("new", (8,), 99, 160)],
        [
            ("general.architecture", 8, gguf_text("llama")),
            ("count", 4, struct.pack("<I", 7)),
            ("tokens", 9, vocabulary),
            ("flag", 7, b"\1"),
        ],
        data=weight.numpy().tobytes().ljust(32, b"\0") + blocks.ljust(96, b"\0") + b"\x80\x3f\0\x40".ljust(40, b"\0"),
    )
    checkpoint = open_checkpoint(path)
    assert checkpoint.format == "gguf"
    w, q, b, new = checkpoint.entries
    assert torch.equal(tensor_of(w), weight)
    assert (q.dtype, q.shape, q.bytes, q.problem) == ("gguf:q4_0", (2, 64), 72, "")
    stored = q.encoded.span
    assert RangeReader().read(stored.file, stored.offset, stored.length) == blocks
    assert tensor_of(b).tolist() == [1.0, 2.0]
    assert "unknown GGUF type 99" in new.problem
    facts = checkpoint.metadata
    assert (facts["general.architecture"], facts["count"], facts["flag"]) == ("llama", 7, True)
    assert facts["tokens"]["length"] == 3000
    assert facts["tokens"]["first"][:2] == ["token0", "token1"]


# Tar files from before torch 0.1.10, which torch no longer writes but still loads


def test_a_tar_checkpoint(tmp_path):
    path = tar_file(tmp_path / "old.pth", torch.arange(8.0))
    expected = torch.load(path, weights_only=False)
    checkpoint = open_checkpoint(path)
    assert checkpoint.format == "torch-legacy"
    assert_same(checkpoint, expected)


def test_a_tar_with_a_view_outside_its_storage_is_rejected(tmp_path):
    path = tar_file(tmp_path / "old.pth", torch.arange(8.0), offset=3)
    with pytest.raises(ReadError, match="tensor w: it reaches element 8"):
        open_checkpoint(path)
