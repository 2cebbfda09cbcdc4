"""Files written by torch.save are read bit for bit without torch."""

from __future__ import annotations

import argparse
import collections
import pickle
import warnings

import numpy as np
import pytest
import torch
from checkpoint_files import assert_same, tensor_of

from assay.checkpoint.open import open_checkpoint

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu, torch.int64, torch.int32, torch.int16,
    torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.complex64,
    torch.complex128, torch.complex32,
]  # fmt: skip


def made(dtype, *shape):
    torch.manual_seed(sum(shape))
    if dtype.is_floating_point or dtype.is_complex:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.randn(*shape, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype)
    return torch.randint(0, 2 if dtype is torch.bool else 100, shape).to(dtype)


def varied():
    """Every dtype and every kind of view that occurs in a state dictionary."""
    values = {str(dtype)[6:]: made(dtype, 3, 5) for dtype in DTYPES}
    base = torch.arange(60.0).reshape(5, 12)
    return {
        **values,
        "scalar": torch.tensor(3.5),
        "empty": torch.empty(0, 7),
        "transposed": torch.arange(12.0).reshape(3, 4).t(),
        "stepped": torch.arange(10)[1::3],
        "row": base[2],
        "column": base[:, 3],
        "inner": base[1:4, 2:9],
        "one": torch.randn(1, 4, 1)[:, 2:3],
        "channels": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    }


@pytest.mark.parametrize("new", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_dtype_and_view_equals_the_tensor_that_torch_loads(tmp_path, new, protocol):
    path = tmp_path / "model.xyz"
    saved = varied()
    torch.save(saved, path, _use_new_zipfile_serialization=new, pickle_protocol=protocol)
    checkpoint = open_checkpoint(path)
    assert checkpoint.format == ("torch-zip" if new else "torch-legacy")
    # torch.load fails on new dtypes in the legacy format.
    assert_same(checkpoint, torch.load(path, weights_only=False) if new else saved)
    assert checkpoint.globals == ()
    assert checkpoint.failures == ()


@pytest.mark.parametrize("new", [True, False], ids=["zip", "legacy"])
def test_tied_names_are_one_entry_and_other_views_link_to_it(tmp_path, new):
    path = tmp_path / "tied.pt"
    weight = torch.randn(4, 6)
    torch.save({"a": weight, "b": {"c": weight}, "d": weight[1:], "e": torch.ones(2)}, path,
               _use_new_zipfile_serialization=new)  # fmt: skip
    entries = open_checkpoint(path).entries
    assert [entry.names for entry in entries] == [("a", "b.c"), ("d",), ("e",)]
    assert [entry.shares_storage_with for entry in entries] == [None, 0, None]
    assert torch.equal(tensor_of(entries[1]), weight[1:])


def test_nested_dictionaries_lists_and_facts(tmp_path):
    path = tmp_path / "nested.pt"
    tensors = [torch.randn(2), torch.randn(3)]
    arguments = argparse.Namespace(lr=0.5, mask=torch.ones(2, dtype=torch.bool))
    torch.save({"epoch": 7, "model": collections.OrderedDict(w=tensors[0]), "list": [1, (tensors[1],)],
                "args": arguments, 5: torch.zeros(1)}, path)  # fmt: skip
    checkpoint = open_checkpoint(path)
    expected = {"model.w": tensors[0], "list.1.0": tensors[1], "args.mask": arguments.mask, "5": torch.zeros(1)}
    assert_same(checkpoint, expected)
    assert checkpoint.metadata == {"epoch": 7, "list.0": 1, "args.lr": 0.5}
    assert checkpoint.globals == ("argparse.Namespace",)
    assert "argparse.Namespace" in checkpoint.notes[0]


def test_an_optimizer_state(tmp_path):
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.125)
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "o.pt")
    state = optimizer.state_dict()["state"]
    expected = {f"model.{name}": value for name, value in model.state_dict().items()}
    expected |= {f"optimizer.state.{i}.{key}": value for i, part in state.items() for key, value in part.items()}
    assert_same(open_checkpoint(tmp_path / "o.pt"), expected)


class Net(torch.nn.Module):
    """A model with a tied parameter, buffers and a plain tensor attribute."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(5, 4)
        self.head = torch.nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight
        self.norm = torch.nn.BatchNorm1d(4)
        self.blocks = torch.nn.ModuleList([torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())])
        self.table = torch.arange(6.0)

    def forward(self, x):
        return self.head(self.norm(self.blocks[0](self.embed(x))))


@pytest.mark.parametrize("way", ["zip", "legacy", "pickle"])
def test_the_tree_and_tensors_of_a_pickled_module_are_read_without_running_code(tmp_path, way):
    path = tmp_path / "net.pt"
    model = Net()
    if way == "pickle":
        path.write_bytes(pickle.dumps(model))
    else:
        torch.save(model, path, _use_new_zipfile_serialization=way == "zip")
    checkpoint = open_checkpoint(path)
    assert_same(checkpoint, {**model.state_dict(), "table": model.table})
    assert ("embed.weight", "head.weight") in [entry.names for entry in checkpoint.entries]
    classes = {name: f"{type(part).__module__}.{type(part).__qualname__}" for name, part in model.named_modules()}
    assert {row.path: row.class_path for row in checkpoint.modules} == classes
    assert set(checkpoint.globals) >= set(classes.values())
    assert "code not run" in checkpoint.notes[0]


@pytest.mark.parametrize("protocol", [1, 2, 4, 5])
def test_a_plain_pickle_of_a_state_dictionary(tmp_path, protocol):
    path = tmp_path / "state.pkl"
    saved = varied()
    path.write_bytes(pickle.dumps(saved, protocol=protocol))
    checkpoint = open_checkpoint(path)
    assert checkpoint.format == "pickle"
    assert_same(checkpoint, saved)


def test_numpy_arrays_are_listed_as_tensors(tmp_path):
    path = tmp_path / "arrays.pt"
    plain, fortran = np.arange(6, dtype=np.float32).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3))
    torch.save({"plain": plain, "fortran": fortran, "flags": np.array([True, False])}, path, pickle_protocol=4)
    expected = {name: torch.from_numpy(value.copy()) for name, value in
                {"plain": plain, "fortran": fortran, "flags": np.array([True, False])}.items()}  # fmt: skip
    assert_same(open_checkpoint(path), expected)
    torch.save({"plain": plain, "fortran": fortran, "flags": np.array([True, False])}, path)
    assert_same(open_checkpoint(path), expected)


def test_sparse_quantized_and_meta_tensors_are_listed(tmp_path):
    path = tmp_path / "odd.pt"
    sparse = torch.eye(3).to_sparse()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantized = torch.quantize_per_tensor(torch.randn(4), 0.5, 0, torch.qint8)
        torch.save({"s": sparse, "q": quantized, "m": torch.empty(2, 3, device="meta"),
                    "conj": torch.randn(2, dtype=torch.complex64).conj()}, path)  # fmt: skip
    found = {name: entry for entry in open_checkpoint(path).entries for name in entry.names}
    assert torch.equal(tensor_of(found["s.values"]), sparse._values())
    assert torch.equal(tensor_of(found["s.indices"]), sparse._indices())
    assert (found["q"].dtype, found["q"].bytes) == ("qint8", 4)
    assert "quantised" in found["q"].problem
    assert "meta" in found["m"].problem
    assert (found["m"].span, found["m"].shape) == (None, (2, 3))
    assert "conjugated" in found["conj"].problem


def test_parameters_of_subclasses_are_found(tmp_path):
    path = tmp_path / "parameters.pt"
    parameter = torch.nn.Parameter(torch.randn(3))
    parameter.note = "an attribute makes torch save it with its state"
    torch.save({"p": parameter, "s": torch.ones(2).untyped_storage()}, path)
    expected = {"p": parameter, "s": torch.ones(2).view(torch.uint8)}
    assert_same(open_checkpoint(path), expected)


def test_a_value_that_contains_itself_is_visited_once(tmp_path):
    path = tmp_path / "loop.pt"
    value = {"w": torch.ones(2)}
    value["again"] = value
    torch.save(value, path)
    assert [entry.names for entry in open_checkpoint(path).entries] == [("w",)]
