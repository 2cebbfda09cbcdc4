"""Outputs of a changed model compared with those of the original."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from assay.document.trials import EXACT, LOSSY, ROUNDING
from assay.trials import differences
from assay.trials.differences import difference
from assay.trials.leaves import leaves_of
from assay.trials.outputs import FINITE, INTEGERS, PRECISION, STRUCTURE, check_outputs, tolerance_db

NAN, INF = float("nan"), float("inf")


def checked(before, after, effect=ROUNDING, **options):
    return check_outputs(leaves_of(before), leaves_of(after), effect, **options)


def rounded(values, relative):
    """The same values with random errors of this relative size."""
    noise = torch.randn(values.shape, generator=torch.Generator().manual_seed(1), dtype=values.dtype)
    return values + relative * noise * values.square().mean().sqrt()


@given(st.integers(0, 1000), st.sampled_from([1, 7, 64]), st.sampled_from([1e-6, 1e-3, 0.5]))
def test_errors_are_those_that_numpy_computes(seed, chunk, relative):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(5, 13)).astype(np.float32)
    b = (a + relative * rng.normal(size=a.shape)).astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(differences, "_CHUNK", chunk)
        found = difference(torch.tensor(a), torch.tensor(b))
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    assert found.max_abs == pytest.approx(np.abs(x - y).max())
    assert found.max_rel == pytest.approx(np.abs(x - y).max() / np.abs(x).max())
    assert found.sqnr_db == pytest.approx(10 * np.log10((x @ x) / ((x - y) @ (x - y))))
    assert found.cosine == pytest.approx(x @ y / np.linalg.norm(x) / np.linalg.norm(y))
    assert found.top1 == pytest.approx(np.mean(a.argmax(1) == b.argmax(1)))
    assert not found.equal


def test_equal_outputs_are_identical_also_if_they_hold_nan():
    values = torch.tensor([1.0, NAN, INF, -INF])
    found = checked(values, values.clone(), EXACT)
    assert (found.broken, found.error.identical, found.error.sqnr_db, found.error.max_abs) == ("", True, None, 0.0)


@pytest.mark.parametrize("effect", [EXACT, ROUNDING, LOSSY])
@pytest.mark.parametrize("value", [NAN, INF])
def test_nan_and_infinity_may_not_appear(effect, value):
    found = checked(torch.ones(4), torch.tensor([1.0, 1.0, value, 1.0]), effect)
    assert found.broken == FINITE
    assert "1 element" in found.reason
    assert found.error.max_abs == 0.0  # over the finite ones: infinity is not a number in JSON


def test_elements_are_counted_over_all_chunks(monkeypatch):
    monkeypatch.setattr(differences, "_CHUNK", 2)
    found = difference(torch.tensor([NAN, 1, 1, NAN, 1, 1, 1.0]), torch.tensor([1, 1, NAN, 1, 1, INF, 1.0]))
    assert (found.appeared, found.vanished, found.equal) == (2, 2, False)


def test_nan_that_vanishes_is_a_difference_unless_the_change_is_lossy():
    before, after = torch.tensor([NAN, 1.0]), torch.tensor([0.0, 1.0])
    assert checked(before, after, ROUNDING).broken == FINITE
    assert checked(before, after, LOSSY).broken == ""


def test_infinities_of_opposite_sign_differ():
    assert checked(torch.tensor([INF]), torch.tensor([-INF])).broken == FINITE


def test_an_exact_change_keeps_every_value_and_one_that_rounds_nearly_every_digit():
    values = torch.randn(1000)
    assert checked(values, rounded(values, 1e-6), EXACT).broken == PRECISION
    assert checked(values, rounded(values, 1e-6), ROUNDING).broken == ""
    assert checked(values, rounded(values, 1e-3), ROUNDING).broken == PRECISION
    assert checked(values, rounded(values, 1e-3), LOSSY).broken == ""
    assert checked(values, rounded(values, 1e-3), ROUNDING, coarsest=torch.bfloat16).broken == ""


@pytest.mark.parametrize(
    ("dtype", "least"), [(torch.float32, 80), (torch.float16, 35), (torch.bfloat16, 24), (torch.float64, 181)]
)
def test_the_tolerance_keeps_the_same_share_of_the_digits_of_each_dtype(dtype, least):
    assert tolerance_db(dtype) == pytest.approx(least, abs=0.5)


def test_integers_must_be_equal_unless_the_change_is_lossy():
    before, after = torch.tensor([1, 2, 3]), torch.tensor([1, 2, 4])
    assert checked(before, after).broken == INTEGERS
    assert "1 of 3 elements" in checked(before, after).reason
    lossy = checked(before, after, LOSSY)
    assert lossy.broken == ""
    assert "1 of 3 elements" in lossy.reason
    assert not lossy.error.identical
    assert checked(torch.tensor([True]), torch.tensor([False])).broken == INTEGERS
    assert checked((1, "a"), (1, "b")).broken == INTEGERS


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        ((torch.ones(2), torch.ones(2)), (torch.ones(2),), "lacks 1 output"),
        ({"logits": torch.ones(2)}, {"logits": torch.ones(2), "loss": torch.ones(())}, "adds 1 output"),
        (torch.ones(2, 3), torch.ones(3, 2), "shape (3, 2) instead of (2, 3)"),
        (torch.ones(2), torch.ones(2, dtype=torch.int64), "int64 instead of float32"),
        (torch.ones(2), 1.0, "shape"),
        (torch.ones(2), "text", "str instead of a Tensor"),
    ],
)
def test_the_structure_must_stay(before, after, word):
    found = checked(before, after, LOSSY)
    assert (found.broken, found.error) == (STRUCTURE, None)
    assert word in found.reason


def test_only_a_lossy_change_may_change_the_precision():
    values = torch.randn(100)
    assert checked(values, values.bfloat16(), ROUNDING).broken == STRUCTURE
    lossy = checked(values, values.bfloat16(), LOSSY)
    assert lossy.broken == ""
    assert 40 < lossy.error.sqnr_db < 60


@dataclass
class Layer:
    keys: torch.Tensor
    values: torch.Tensor


class Cache:
    def __init__(self, tensor, seen=3):
        self.layers = [Layer(tensor, 2 * tensor)]
        self.seen = seen
        self.owner = self


def test_tensors_are_found_however_nested():
    point = namedtuple("point", "x y")
    value = torch.ones(1)
    output = {"a": [value, (value, point(value, None))], "cache": Cache(value), "array": np.ones(2), "n": 2.5}
    assert set(leaves_of(output)) == {
        "a.0", "a.1.0", "a.1.1.0", "cache.layers.0.keys", "cache.layers.0.values", "array", "n",
    }  # fmt: skip
    assert checked(output, {**output, "cache": Cache(torch.zeros(1))}).broken == PRECISION
    assert checked(output, {**output, "cache": Cache(value, seen=4)}).broken == ""


def test_outputs_of_transformers_and_their_caches_are_compared():
    outputs = pytest.importorskip("transformers.modeling_outputs")
    cache = pytest.importorskip("transformers").DynamicCache()
    cache.update(torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 4), 0)
    found = leaves_of(outputs.CausalLMOutputWithPast(logits=torch.ones(1, 3, 5), past_key_values=cache))
    assert sorted(tuple(leaf.shape) for leaf in found.values() if isinstance(leaf, torch.Tensor))[-1] == (1, 3, 5)
    assert sum(tuple(leaf.shape) == (1, 2, 3, 4) for leaf in found.values() if isinstance(leaf, torch.Tensor)) == 2


def test_leaves_are_copies():
    buffer = torch.zeros(2)
    found = leaves_of([buffer])
    buffer.fill_(1)
    assert found["0"].tolist() == [0, 0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.eye(3).to_sparse_csr(),
        lambda: torch.quantize_per_tensor(torch.eye(3), 0.1, 0, torch.qint8),
        lambda: torch.randn(3, dtype=torch.complex64).conj(),
        lambda: torch.empty(0, 3),
        lambda: torch.randn(3).to(torch.float8_e4m3fn),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
    ],
)
@pytest.mark.filterwarnings("ignore:Sparse CSR", "ignore:.*[Qq]uantiz", "ignore:.*nested")
def test_unusual_tensors_equal_themselves(make):
    tensor = make()
    assert checked(tensor, tensor.clone(), EXACT).error.identical


def test_the_first_choice_counts_ties_and_is_taken_from_the_first_output_with_rows():
    before = {"loss": torch.ones(()), "logits": torch.tensor([[1.0, 1.0, 0.0], [0.0, 2.0, 1.0]])}
    after = {"loss": torch.ones(()), "logits": torch.tensor([[1.0, 1.1, 0.0], [3.0, 2.0, 1.0]])}
    assert checked(before, after, LOSSY).error.top1 == 0.5


def test_an_output_of_zeros_has_no_cosine_and_no_signal():
    found = checked((torch.zeros(3), torch.ones(3)), (torch.full((3,), 1e-3), torch.ones(3)), LOSSY)
    assert (found.error.cosine, found.error.sqnr_db) == (None, 0.0)
