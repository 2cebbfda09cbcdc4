"""Unusual checkpoints from practice: training states, unusual tensors, folders and names."""

from __future__ import annotations

import collections
import json
import os
import pickle
import warnings

import numpy as np
import pytest
import torch
from checkpoint_files import assert_same, peak_of_child, safetensors_file, tensor_of
from safetensors.torch import save_file

from assay.checkpoint.open import open_checkpoint
from assay.cli.main import run
from assay.errors import ReadError


def tensors_in(value, name=""):
    """The tensors in nested dictionaries, lists and tuples, by dotted name."""
    if isinstance(value, torch.Tensor):
        return {name: value}
    if isinstance(value, np.ndarray):
        return {name: torch.from_numpy(value)}
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if type(value) in (list, tuple) else ()
    found = {}
    for key, item in pairs:
        found |= tensors_in(item, f"{name}.{key}" if name else str(key))
    return found


def zero_state():
    """The state that DeepSpeed ZeRO saves for one rank: flat partitions and the shapes of the parameters."""
    flat = torch.randn(1003)
    base = {0: {"step": torch.tensor(3.0), "exp_avg": flat.clone(), "exp_avg_sq": flat.square()}}
    return {
        "optimizer_state_dict": {
            "loss_scaler": None,
            "base_optimizer_state": {
                "state": base,
                "param_groups": [{"lr": 1e-4, "betas": (0.9, 0.95), "params": [0]}],
            },
            "single_partition_of_fp32_groups": [flat.clone(), flat[:10].clone()],
            "partition_count": [2, 2],
            "param_slice_mappings": [collections.OrderedDict(a=(0, 5))],
        },
        "param_shapes": [collections.OrderedDict(w=torch.Size([10, 100]))],
        "ds_version": "0.14.0",
    }


def lbfgs_state():
    """An optimizer state with lists of tensors, the state of a random generator, and nested lists."""
    parameter = torch.nn.Parameter(torch.randn(5))
    optimizer = torch.optim.LBFGS([parameter])

    def closure():
        optimizer.zero_grad()
        loss = (parameter**4).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    nested = [[[torch.ones(2)], (torch.zeros(1),)], {1: {2: torch.ones(1)}}]
    return {"optimizer": optimizer.state_dict(), "generators": [torch.get_rng_state()], "nested": nested}


@pytest.mark.parametrize("make", [zero_state, lbfgs_state])
@pytest.mark.parametrize("new", [True, False], ids=["zip", "legacy"])
def test_training_states(tmp_path, make, new):
    value = make()
    torch.save(value, tmp_path / "state.pt", _use_new_zipfile_serialization=new)
    assert_same(open_checkpoint(tmp_path / "state.pt"), tensors_in(value))


def odd_tensors():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        eye = torch.eye(4)
        rows = [torch.ones(2, 3), torch.zeros(4, 3)]
        return {
            "coo": eye.to_sparse(), "csr": eye.to_sparse_csr(), "csc": eye.to_sparse_csc(),
            "bsr": eye.to_sparse_bsr((2, 2)), "nested": torch.nested.nested_tensor(rows),
            "jagged": torch.nested.nested_tensor(rows, layout=torch.jagged),
            "tensor": torch.quantize_per_tensor(torch.randn(8), 0.1, 0, torch.qint8),
            "channel": torch.quantize_per_channel(torch.randn(4, 4), torch.ones(4), torch.zeros(4), 0, torch.quint8),
            "float4": torch.zeros(6, dtype=torch.uint8).view(torch.float4_e2m1fn_x2),
            "float8": torch.arange(6, dtype=torch.uint8).view(torch.float8_e8m0fnu),
            "complex": torch.ones(3, dtype=torch.complex32), "uint16": torch.ones(3, dtype=torch.uint16),
            "meta": torch.empty(10**6, 10**6, device="meta"), "wide": torch.zeros(1).expand(10**6, 10**6),
            "overlapping": torch.arange(10.0).as_strided((8, 3), (1, 1)), "hollow": torch.zeros(3, 4)[:, :0],
        }  # fmt: skip


def test_unusual_tensors_are_read_or_listed_with_a_problem(tmp_path, capsys):
    path = tmp_path / "odd.pt"
    value = odd_tensors()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save(value, path)
    entries = open_checkpoint(path).entries
    found = {name: entry for entry in entries for name in entry.names}
    assert torch.equal(tensor_of(found["coo.values"]), value["coo"]._values())
    assert torch.equal(tensor_of(found["csr.values"]), value["csr"].values())
    assert torch.equal(tensor_of(found["csc.plain_indices"]), value["csc"].row_indices())
    assert tensor_of(found["nested.buffer"]).tolist() == [1.0] * 6 + [0.0] * 12
    assert any(name.startswith("jagged") and entry.bytes == 72 for name, entry in found.items())
    assert torch.equal(tensor_of(found["overlapping"]), value["overlapping"])
    assert {name for name, entry in found.items() if entry.problem} == {"tensor", "channel", "float4", "meta"}
    assert run(["params", str(path), "--format", "jsonl"]) == 4
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == len(entries)
    _, peak = peak_of_child(path, statistics=True)
    assert peak < 256 << 20


@pytest.mark.parametrize(
    ("value", "holds"),
    [
        (None, "None"),
        (5, "a number"),
        ("x" * 100_000, "bytes or a long string"),
        (["a", "b"], "a list with 2 items"),
        ({}, "an empty dictionary"),
        ({"epoch": 1, "loss": {"train": 0.5}}, "a dictionary with 2 items"),
        (torch.Size([1]), "a tuple with 1 item"),
        (torch.float32, "a reference to torch.float32"),
        (np.float32(3), "an object"),
    ],
)
@pytest.mark.parametrize("kind", ["torch.save file", "pickle"])
def test_a_file_without_tensors_states_what_it_is(tmp_path, value, holds, kind):
    if kind == "pickle":
        (tmp_path / "a.pt").write_bytes(pickle.dumps(value))
    else:
        torch.save(value, tmp_path / "a.pt")
    with pytest.raises(ReadError) as error:
        open_checkpoint(tmp_path / "a.pt")
    assert str(error.value) == f"{tmp_path / 'a.pt'} has no tensors: it is a {kind} of {holds}"


def test_an_array_of_objects_is_listed_with_its_problem(tmp_path):
    torch.save(np.array(["a", None], dtype=object), tmp_path / "a.pt")
    assert [bool(entry.problem) for entry in open_checkpoint(tmp_path / "a.pt").entries] == [True]


@pytest.mark.parametrize("command", ["params", "check", "analyze", "report"])
def test_a_hostile_pickle_is_refused_by_every_command_and_its_code_is_named(tmp_path, capsys, command):
    (tmp_path / "a.pkl").write_bytes(b"cos\nsystem\n(S'touch hacked'\ntR.")
    assert run([command, str(tmp_path / "a.pkl")]) == 3
    captured = capsys.readouterr()
    assert "has no tensors: it is a pickle of a call of os.system; code not run" in captured.err
    assert not captured.out


def test_an_empty_safetensors_file_has_no_tensors(tmp_path):
    save_file({}, tmp_path / "a.safetensors")
    with pytest.raises(ReadError, match="has no tensors: it is a safetensors file with an empty header"):
        open_checkpoint(tmp_path / "a.safetensors")


def test_a_module_without_tensors_is_a_model(tmp_path):
    torch.save(torch.nn.Sequential(torch.nn.ReLU()), tmp_path / "a.pt")
    assert [row.path for row in open_checkpoint(tmp_path / "a.pt").modules] == ["", "0"]


def test_a_bare_tensor_and_a_bare_storage(tmp_path):
    torch.save(torch.arange(6.0), tmp_path / "t.pt")
    assert_same(open_checkpoint(tmp_path / "t.pt"), {"": torch.arange(6.0)})
    torch.save(torch.arange(6.0).untyped_storage(), tmp_path / "s.pt")
    (entry,) = open_checkpoint(tmp_path / "s.pt").entries
    assert torch.equal(tensor_of(entry).view(torch.float32), torch.arange(6.0))


def test_keys_of_any_kind_become_names(tmp_path):
    keys = [1, (1, 2), None, 1.5, torch.float32, b"by", "a.b"]
    torch.save({key: torch.full((1,), float(place)) for place, key in enumerate(keys)}, tmp_path / "k.pt")
    found = [entry.names[0] for entry in open_checkpoint(tmp_path / "k.pt").entries]
    assert len(set(found)) == len(keys)
    assert {"1", "(1, 2)", "None", "1.5", "torch.float32", "a.b"} <= set(found)


# Folders


def shard(path, name="w"):
    save_file({name: torch.ones(3)}, path)


def test_only_the_preferred_format_of_a_mixed_folder_is_read(tmp_path):
    shard(tmp_path / "model.safetensors")
    torch.save({"other": torch.ones(2)}, tmp_path / "pytorch_model.bin")
    torch.save({}, tmp_path / "optimizer.pt")
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "inner.safetensors").mkdir()
    assert_same(open_checkpoint(tmp_path), {"w": torch.ones(3)})


def test_a_broken_link_is_a_missing_shard(tmp_path):
    for target in ("nowhere.safetensors", "b.safetensors"):
        folder = tmp_path / target
        folder.mkdir()
        shard(folder / "a.safetensors")
        (folder / "b.safetensors").symlink_to(target)
        (folder / "again").symlink_to(folder)
        checkpoint = open_checkpoint(folder)
        assert len(checkpoint.entries) == 1
        assert "b.safetensors" in checkpoint.failures[0]
        with pytest.raises(ReadError, match=r"b\.safetensors"):
            open_checkpoint(folder / "b.safetensors")


def test_a_named_pipe_among_the_shards_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "a.safetensors")
    with pytest.raises(ReadError, match="without a model"):
        open_checkpoint(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": "a.safetensors"}}))
    with pytest.raises(ReadError, match="not a regular file"):
        open_checkpoint(tmp_path)


def test_an_empty_shard_is_reported(tmp_path):
    shard(tmp_path / "a.safetensors")
    (tmp_path / "b.safetensors").touch()
    checkpoint = open_checkpoint(tmp_path)
    assert len(checkpoint.entries) == 1
    assert "is empty" in checkpoint.failures[0]


def test_a_missing_shard_gives_exit_code_4(tmp_path, capsys):
    shard(tmp_path / "1.safetensors")
    places = {"w": "1.safetensors", "v": "2.safetensors", "u": "2.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    assert run(["params", str(tmp_path)]) == 4
    assert capsys.readouterr().err == "assay: incomplete: shard 2.safetensors is missing: 2 tensors not read\n"


# Names


ESCAPES = "\x1b[31mred\x1b]0;title\x07\u202e\x9b2J\x00"


def test_escape_sequences_in_names_do_not_reach_the_terminal(tmp_path, capsys):
    folder = tmp_path / "a\x1b[31m\nb"
    folder.mkdir()
    info = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    odd = {"dtype": "\x1b[2J", "shape": [2], "data_offsets": [8, 16]}
    path = safetensors_file(folder / "m.safetensors", {ESCAPES: info, f"{ESCAPES}2": odd}, bytes(16))
    (folder / "bad.pt").write_bytes(b"hello")
    for file, code in ((path, 4), (folder / "bad.pt", 3), (folder / "none.pt", 3)):
        for form in ("table", "md", "csv", "json", "jsonl"):
            assert run(["params", str(file), "--format", form]) == code
            out, err = capsys.readouterr()
            assert not set("\x1b\x07\u202e\x9b\x00") & set(err)
            if form in ("table", "md"):
                assert not set("\x1b\x07\u202e\x9b\x00") & set(out)
            if form in ("json", "jsonl"):
                assert not set("\x1b\x07\x00") & set(out)
