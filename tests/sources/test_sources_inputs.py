"""Inputs given by the user: in every form, from every source, moved to a device."""

from __future__ import annotations

from collections import UserDict, namedtuple

import pytest
import torch
from opening import open_model

from assay.document.document import Document
from assay.document.files import save
from assay.errors import InputsError, ReadError, UsageError, UserCodeError
from assay.sources.inputs import find_inputs

OPENED = open_model(torch.nn.Identity())
A, B = torch.ones(2), torch.zeros(3)

FORMS = {
    "tensor": (A, (A,), {}),
    "tuple": ((A, B), (A, B), {}),
    "list": ([A, B], (A, B), {}),
    "keywords": ({"a": A}, (), {"a": A}),
    "mapping": (UserDict(a=A), (), {"a": A}),
    "pair": (((A,), {"b": B}), (A,), {"b": B}),
    "pair of a list": (([A], {"b": B}), (A,), {"b": B}),
    "a tensor and a dict are two arguments": ((A, {"b": B}), (A, {"b": B}), {}),
    "a dict without names is an argument": (((A,), {1: B}), ((A,), {1: B}), {}),
    "nothing": ((), (), {}),
}


def same(left, right):
    return left is right or (type(left) is type(right) and repr(left) == repr(right))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("wrapped", [False, True], ids=["value", "callable"])
def test_every_form_of_arguments(form, wrapped):
    value, args, kwargs = FORMS[form]
    inputs = find_inputs((lambda: value) if wrapped else value, OPENED)
    assert same(inputs.args, args)
    assert same(inputs.kwargs, kwargs)
    assert inputs.how == "given"


@pytest.mark.parametrize("value", [3, object(), {1: A}, lambda: None, lambda: 7])
def test_other_values_are_rejected(value):
    with pytest.raises(InputsError, match=r"expected a tensor, a tuple"):
        find_inputs(value, OPENED)


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "widths.py").write_text("WIDTH = 5")
    (tmp_path / "my_model.py").write_text(
        "import torch\n"
        "def get_inputs():\n    from widths import WIDTH\n    print('noise')\n    return torch.ones(1, WIDTH)\n"
        "example = (torch.ones(2), torch.ones(3))\n"
        "def broken(): raise ValueError('no data')\n"
        "def nothing(): return None\n"
        "def needy(batch): return torch.ones(batch)\n"
    )
    return "my_model.py"


def test_a_function_in_a_file_is_called(file, capsys):
    inputs = find_inputs(f"{file}::get_inputs", OPENED)
    assert inputs.args[0].shape == (1, 5)
    assert inputs.how == "my_model.py:get_inputs"
    assert capsys.readouterr().out == ""


def test_a_value_in_a_file_is_used(file):
    assert [tuple(tensor.shape) for tensor in find_inputs(f"{file}::example", OPENED).args] == [(2,), (3,)]


@pytest.mark.parametrize(
    ("name", "kind", "part"),
    [
        ("broken", UserCodeError, "broken() in my_model.py raised ValueError: no data"),
        ("nothing", InputsError, "cannot use the return value of nothing() in my_model.py (None) as arguments"),
        ("needy", UsageError, "missing a required argument: 'batch'"),
        ("get_input", ReadError, "did you mean get_inputs?"),
    ],
)
def test_functions_that_return_no_inputs_are_an_error(file, name, kind, part):
    with pytest.raises(kind) as caught:
        find_inputs(f"{file}::{name}", OPENED)
    assert part in str(caught.value)


def test_a_missing_file_is_a_read_error():
    with pytest.raises(ReadError, match=r"no such file or directory: gone\.py"):
        find_inputs("gone.py::f", OPENED)


def test_the_model_and_its_inputs_share_one_module(file):
    (file_path := __import__("pathlib").Path(file)).write_text(
        "import torch\nclass Batch: pass\nclass Net(torch.nn.Module):\n"
        "    def forward(self, batch): assert isinstance(batch, Batch)\n"
        "def inputs(): return (Batch(),)\n"
    )
    opened = open_model(f"{file_path}::Net")
    opened.module(*find_inputs(f"{file_path}::inputs", opened).args)


def test_nested_tensors_are_moved_and_converted():
    Pair = namedtuple("Pair", "left right")
    ids = torch.arange(3)
    value = (Pair(A, ids), {"deep": [B, "text"]}, 7)
    inputs = find_inputs(value, OPENED, device="meta", dtype="f64")
    pair, mapping, number = inputs.args
    assert isinstance(pair, Pair)
    assert pair.left.is_meta
    assert pair.left.dtype is mapping["deep"][0].dtype is torch.float64
    assert pair.right is ids
    assert mapping["deep"][1] == "text"
    assert number == 7


def test_given_tensors_are_used_unchanged_by_default():
    assert find_inputs(A, OPENED).args[0] is A


def test_a_model_on_meta_gets_its_floats_on_meta():
    opened = open_model(torch.nn.Linear(2, 2, device="meta"))
    inputs = find_inputs((A, torch.arange(2)), opened)
    assert inputs.args[0].is_meta
    assert not inputs.args[1].is_meta


def test_a_document_cannot_be_run(tmp_path):
    save(Document(), tmp_path / "m.assay.json")
    with pytest.raises(UsageError, match="is read, not run"):
        find_inputs(None, open_model(tmp_path / "m.assay.json"))
