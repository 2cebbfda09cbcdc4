"""The brief of a checkpoint: its figures are added up again from the arrays, and what is wrong comes first."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import save_file

import assay
from assay.errors import ReadError
from assay.findings.brief_weights import weight_findings, weights_brief
from assay.findings.catalogue import rules, trace_rules, weight_rules


@pytest.fixture
def arrays():
    random = np.random.default_rng(0)
    made = {f"layers.{at}.w": random.normal(size=(32, 64)).astype("float32") for at in range(4)}
    made["head"] = np.zeros((8, 64), "float16")
    return made


def briefed(arrays, path, **options):
    save_file(arrays, path)
    document = assay.check(path, **options).document
    return weights_brief(document, weight_findings(document))


def test_sizes_and_values_are_those_of_the_arrays(arrays, tmp_path):
    arrays["layers.2.w"][3, 5] = np.nan
    arrays["layers.1.w"][0, 0] = np.inf
    brief = briefed(arrays, tmp_path / "w.safetensors")
    count = sum(array.size for array in arrays.values())
    assert brief.identity == ("w.safetensors", "safetensors", "5 tensors", f"{count / 1000:.3g} k values")
    size, values = brief.figures
    total = sum(array.nbytes for array in arrays.values())
    assert size.figure.value == total
    assert size.detail == f"{100 * 4 * 32 * 64 * 4 / total:.1f} % in layers.#.w"
    assert values.figure.value == 2
    finite = np.concatenate([array[np.isfinite(array)].ravel() for array in arrays.values()]).astype("float64")
    assert f"{finite.min():.3g} to {finite.max():.3g}" in values.text
    assert values.detail == f"{100 * 8 * 64 / count:.1f} % zeros"
    assert brief.problems[0].code == "W101"
    assert "layers.2.w" in brief.problems[0].title


def test_a_clean_checkpoint_says_what_was_examined(arrays, tmp_path):
    del arrays["head"]
    brief = briefed(arrays, tmp_path / "w.safetensors")
    assert (brief.problems, brief.clean) == ([], "weights")


def test_headers_alone_leave_the_values_unknown(arrays, tmp_path):
    brief = briefed(arrays, tmp_path / "w.safetensors", read_weights=False)
    assert [one.label for one in brief.figures] == ["Size"]
    assert [one.what for one in brief.unknown] == ["values"]
    assert brief.clean == ""


def test_an_empty_checkpoint_is_an_error(tmp_path):
    with pytest.raises(ReadError, match="has no tensors: it is a safetensors file with an empty header"):
        briefed({}, tmp_path / "w.safetensors")


def test_rules_loaded_alone_are_all_those_about_weights_and_traces():
    assert [one.code for one in weight_rules()] == [one.code for one in rules() if one.code.startswith("W")]
    assert [one.code for one in trace_rules()] == [one.code for one in rules() if one.code.startswith("T")]
