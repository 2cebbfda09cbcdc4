"""State dicts in memory: the results of a file that holds the same dict, and nothing is changed or copied."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict

import msgspec
import numpy as np
import pytest
import torch

import assay
from assay.api.explore.subjects import explorer_subject
from assay.api.weights import weights_document
from assay.api.weights.source import tensors_of
from assay.checkpoint.statistics.chunks import Chunk
from assay.errors import ReadError, UsageError
from assay.sources.open import open_source


def checkpoint():
    """A training checkpoint with tied tensors, views and numbers that are no tensors."""
    torch.manual_seed(0)
    base = torch.randn(6, 8)
    model = OrderedDict(
        {
            "embed": torch.randn(40, 16),
            "left": base[:, :4],
            "turned": base.t(),
            "half": torch.randn(9).bfloat16(),
            "steps": torch.arange(5),
            "wide": torch.ones(1, 3).expand(4, 3),
        }
    )
    model["head"] = model["embed"]
    optimizer = {"state": {0: {"exp_avg": torch.randn(40, 16)}}, "param_groups": [{"lr": 0.1, "params": [0]}]}
    return {"model": model, "optimizer": optimizer, "epoch": 3, "best": None}


def by_name(report):
    return {row.names: msgspec.structs.replace(row, alignment=1) for row in report.tensors}


def test_a_nested_state_dict_gives_what_its_file_gives(tmp_path):
    state = checkpoint()
    torch.save(state, tmp_path / "last.pt")
    found, stored = by_name(assay.analyze_weights(state)), by_name(assay.analyze_weights(tmp_path / "last.pt"))
    assert found == stored
    assert ("model.embed", "model.head") in found
    assert ("optimizer.state.0.exp_avg",) in found


def test_numpy_arrays_give_what_tensors_give_whatever_their_layout():
    values = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)
    arrays = {
        "plain": values,
        "turned": values.T,
        "part": values[1:4, 2:5],
        "backwards": values[::-1],
        "steps": values[:, ::2],
        "swapped": values.astype(">f4"),
        "repeated": np.broadcast_to(values[:1], (4, 8)),
        "half": values.astype(np.float16),
        "one": np.array(3.5),
        "none": np.zeros((0, 3)),
        "flags": values > 0,
    }
    expected = {name: torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("="))) for name, array in
                arrays.items() if name != "repeated"}  # fmt: skip
    expected["repeated"] = torch.from_numpy(values[:1]).expand(4, 8)
    found, reference = by_name(assay.analyze_weights(arrays)), by_name(assay.analyze_weights(expected))
    assert found == reference
    assert len(found) == len(arrays)


def test_equal_views_of_one_array_are_one_tensor():
    values = np.ones((4, 5), np.float32)
    report = assay.analyze_weights({"a": values, "b": values.view(), "c": values[:2], "d": values.copy()})
    assert [row.names for row in report.tensors] == [("a", "b"), ("c",), ("d",)]


def test_a_state_dict_is_not_changed_and_its_arrays_need_no_torch():
    code = (
        "import sys, numpy, assay; state = {'w': numpy.ones((3, 4))}; state['w'].flags.writeable = False;"
        "print(assay.analyze_weights(state).tensors[0].l1, list(state), 'torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["12.0", "['w']", "False"]


def test_no_copy_of_the_tensors_is_made():
    """The bytes of a contiguous tensor are read where they are."""
    tensors = {"a": torch.ones(8), "b": np.ones(8, np.float32)}
    source = tensors_of(open_source(tensors))
    addresses = tensors["a"].data_ptr(), tensors["b"].ctypes.data
    for entry, address in zip(source.checkpoint.entries, addresses, strict=True):
        chunk = Chunk(0, entry.span.file, entry.span.offset, 1, 8, "float32", 0)
        assert np.frombuffer(source.read(chunk), np.uint8).ctypes.data == address


def test_lazy_and_meta_tensors_and_unknown_dtypes_are_named():
    state = {
        "lazy": torch.nn.LazyLinear(3).state_dict()["weight"],
        "meta": torch.empty(3, device="meta"),
        "objects": np.array([None, "x"], dtype=object),
    }
    report = assay.analyze_weights(state)
    assert {row.names[0]: row.problem for row in report.tensors} == {
        "meta": "on the meta device, which stores no values",
        "objects": "unknown dtype",
    }
    assert "lazy" in report.notes[0]


@pytest.mark.parametrize("value", [{}, {"epoch": 3}, [torch.ones(3)], torch.ones(3), np.ones(3), 7])
def test_what_is_no_state_dict_is_refused_with_what_was_expected(value):
    with pytest.raises(
        UsageError, match=r"^cannot open an? .*: expected a torch\.nn\.Module, .* a state dict, or a path"
    ):
        assay.analyze_weights(value)


def test_a_dict_that_contains_itself_is_read_once():
    state = {"w": torch.ones(3)}
    state["self"] = state
    assert [row.names for row in assay.analyze_weights(state).tensors] == [("w",)]


def test_check_report_and_explore_take_a_state_dict(tmp_path):
    state = {"layers.0.weight": torch.full((64, 64), float("nan")), "layers.1.weight": torch.randn(64, 64)}
    assert "W101" in {finding.code for finding in assay.check(state).findings}
    assert "layers.0.weight" in assay.report(state, tmp_path / "report.md").read_text()
    assert assay.report(state, tmp_path / "report.html").exists()
    subject = explorer_subject(state)
    assert [tensor.names[0] for tensor in subject.document.tensors] == list(state)
    assert subject.inspector.tensor("layers.1", "weight").min == state["layers.1.weight"].min()
    assert subject.notes == ()


def test_values_that_are_stored_conjugated_or_negated_are_refused():
    z = torch.complex(torch.zeros(3, 4), torch.arange(12.0).reshape(3, 4))
    rows = assay.analyze_weights({"negative": z.conj().imag, "conjugate": z.conj(), "plain": z}).tensors
    assert ["conjugated or negated" in row.problem for row in rows] == [True, True, False]
    assert [row.mean for row in rows] == [None, None, 2.75]


def test_a_state_dict_cannot_be_run():
    with pytest.raises(ReadError, match=r"^a dict of tensors has no model: load it into its torch\.nn\.Module$"):
        assay.observe({"w": torch.ones(3)})


def test_a_state_dict_that_a_function_returns_is_read(tmp_path):
    (tmp_path / "states.py").write_text("import torch\ndef load():\n    return {'w': torch.ones(3)}\n")
    document = weights_document(f"{tmp_path / 'states.py'}::load")
    assert [row.names for row in document.weights.tensors] == [("w",)]
