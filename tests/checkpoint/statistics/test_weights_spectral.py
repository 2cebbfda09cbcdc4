"""Spectra compared with numpy's full singular value decomposition."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.api.weights import weights_document
from assay.checkpoint.statistics.chunks import Weight
from assay.checkpoint.statistics.settings import StatisticsSettings
from assay.checkpoint.statistics.spectral import spectral, with_spectrum
from assay.document.weights import TensorStatistics


def blocks_of(matrix, rows=7):
    return lambda: (matrix[start : start + rows] for start in range(0, matrix.shape[0], rows))


@pytest.mark.parametrize("shape", [(60, 40), (40, 60), (1, 30), (30, 1), (5, 5)])
def test_the_norm_is_within_its_error_bound(shape):
    matrix = np.random.default_rng(1).standard_normal(shape)
    spectrum = spectral(blocks_of(matrix), shape[1], tolerance=1e-9)
    values = np.linalg.svd(matrix, compute_uv=False)
    assert spectrum.norm <= values[0] * (1 + 1e-12)
    assert values[0] <= spectrum.norm + spectrum.norm_error + 1e-9 * values[0]
    assert spectrum.stable_rank == pytest.approx((values**2).sum() / values[0] ** 2, rel=1e-6)
    for actual, true in zip(spectrum.singular_values[:2], values, strict=False):
        assert actual == pytest.approx(true, rel=1e-3)


def test_the_error_bound_holds_after_few_steps():
    matrix = np.random.default_rng(2).standard_normal((300, 300))
    values = np.linalg.svd(matrix, compute_uv=False)
    spectrum = spectral(blocks_of(matrix, 64), 300, max_steps=4)
    assert spectrum.steps == 4
    assert np.abs(values - spectrum.norm).min() <= spectrum.norm_error
    assert spectrum.norm_error > 1e-3 * values[0]


def test_a_low_rank_matrix_needs_few_steps():
    generator = np.random.default_rng(3)
    matrix = np.outer(generator.standard_normal(200), generator.standard_normal(100))
    matrix += 1e-3 * generator.standard_normal((200, 100))
    spectrum = spectral(blocks_of(matrix), 100)
    assert spectrum.steps < 8
    assert spectrum.stable_rank == pytest.approx(1.0, abs=0.01)
    assert 1 <= spectrum.effective_rank_least <= spectrum.effective_rank_most < 1.05


def bounds_of(spectrum):
    return spectrum.effective_rank_least, spectrum.effective_rank_most


def true_effective_rank(matrix):
    share = np.linalg.svd(matrix, compute_uv=False) ** 2
    share = share[share > 0] / share.sum()
    return np.exp(-(share * np.log(share)).sum())


def test_effective_rank_of_an_identity_and_of_a_full_spectrum():
    assert bounds_of(spectral(blocks_of(np.eye(32)), 32)) == pytest.approx((32, 32))
    matrix = np.random.default_rng(4).standard_normal((50, 20))
    spectrum = spectral(blocks_of(matrix), 20, tolerance=0.0)
    assert spectrum.effective_rank_most == pytest.approx(true_effective_rank(matrix), rel=1e-6)


@pytest.mark.parametrize("matrix", [np.zeros((4, 4)), np.zeros((0, 4)), np.zeros((4, 0))])
def test_an_empty_or_zero_matrix_has_no_spectrum(matrix):
    assert spectral(blocks_of(matrix), matrix.shape[1]) is None


def test_the_bound_does_not_exceed_the_residual_however_far_it_converged():
    """Values that converged long before the last step keep a tiny bound, so they count as settled."""
    generator = np.random.default_rng(5)
    left, right = (np.linalg.qr(generator.standard_normal((size, 40)))[0] for size in (90, 70))
    values = np.concatenate(([1000.0, 500.0, 100.0, 50.0], np.linspace(2, 1, 36)))
    spectrum = spectral(blocks_of(left * values @ right.T), 70, tolerance=0.0)
    assert spectrum.singular_values[:4] == pytest.approx(values[:4], rel=1e-9)
    assert spectrum.norm_error < 1e-6


@pytest.mark.parametrize("scale", [1e-140, 1e-80, 1e80, 1e140])
def test_the_scale_of_a_matrix_does_not_matter(scale):
    matrix = np.random.default_rng(6).standard_normal((30, 20))
    one, other = spectral(blocks_of(matrix), 20), spectral(blocks_of(scale * matrix), 20)
    assert other.norm == pytest.approx(scale * one.norm, rel=1e-12)
    assert (other.steps, bounds_of(other)) == (one.steps, pytest.approx(bounds_of(one)))


@pytest.mark.parametrize("scale", [1e-160, 1e200])
def test_a_matrix_whose_squares_are_not_representable_has_no_spectrum(scale):
    assert spectral(blocks_of(scale * np.eye(9)), 9) is None


def spectra_of(name, tensor):
    """The row of a buffer of this name, which may have dots."""
    *path, last = name.split(".")
    owner = module = torch.nn.Module()
    for part in path:
        owner.add_module(part, torch.nn.Module())
        owner = owner.get_submodule(part)
    owner.register_buffer(last, tensor)
    (row,) = weights_document(module, settings=StatisticsSettings(spectral=True)).weights.tensors
    return row


def with_spectrum_of(values, *names):
    """The row of an array with its spectrum, from its bytes, smallest and largest value alone."""
    data, dtype = values.tobytes(), str(values.dtype)
    weight = Weight(names or ("w",), dtype, values.shape, length=len(data))
    low, high = float(values.min()), float(values.max())
    row = TensorStatistics(weight.names, dtype, values.shape, len(data), values.size, min=low, max=high)
    return with_spectrum(weight, row, lambda chunk: data[chunk.offset : chunk.offset + chunk.bytes])


def spectra(**tensors):
    """The rows of tensors, with spectra within no budget at all, which needs no iteration, and without a limit."""
    module = torch.nn.Module()
    for name, tensor in tensors.items():
        module.register_buffer(name, tensor)
    settings = (StatisticsSettings(spectral=True, spectral_elements=limit) for limit in (0, None))
    documents = [weights_document(module, settings=each) for each in settings]
    return [{row.names[0]: row for row in each.weights.tensors} for each in documents]


def test_a_matrix_of_zeros_has_norm_and_ranks_zero():
    for rows in spectra(plain=torch.zeros(8, 9), stack=torch.zeros(2, 3, 128), one=torch.zeros(1, 5)):
        for row in rows.values():
            found = row.spectral
            assert (found.norm, found.norm_error, found.stable_rank, *bounds_of(found)) == (0, 0, 0, 0, 0)
            assert row.note == ""


@pytest.mark.parametrize("shape", [(1, 700), (700, 1), (1, 600_000), (1, 3, 5, 5)])
def test_the_norm_of_one_row_or_column_is_its_l2_norm(shape):
    values = torch.randn(shape)
    for rows in spectra(one=values):
        found = rows["one"].spectral
        assert found.norm == pytest.approx(values.double().norm().item(), rel=1e-12)
        assert (found.norm_error, found.stable_rank, *bounds_of(found)) == (0, 1, 1, 1)


def test_what_is_no_matrix_or_not_finite_has_no_spectrum_and_a_reason():
    invalid = {
        "nan": torch.full((4, 4), math.nan),
        "one": torch.diag(torch.tensor([3.0, math.inf])),
        "zeros": torch.tensor([[0.0, 0.0], [math.nan, 0.0]]),
        "row": torch.tensor([[1.0, math.nan]]),
    }
    _, rows = spectra(vector=torch.zeros(9), ids=torch.zeros(3, 3).int(), **invalid)
    assert [row.spectral for row in rows.values()] == [None] * 6
    notes = {name: row.note for name, row in rows.items() if row.note}
    assert notes == {
        **dict.fromkeys(("nan", "one", "zeros"), "spectrum not computed: NaN or infinite values"),
    }


EXPERTS = {"up": (4, 192, 64), "layers.0.experts.up": (40, 20, 16)}
KERNELS = {
    "conv": (64, 32, 5),
    "positions": (96, 48, 128),
    "depthwise": (40, 1, 64),
    "small": (4, 8, 128),
    "thin": (3, 1, 700),
}


@pytest.mark.parametrize(("name", "shape"), [*EXPERTS.items(), *KERNELS.items()])
def test_three_dimensions_are_a_stack_of_matrices_or_the_kernels_of_a_convolution(name, shape):
    """Norms, rows and roundings per row all follow one rule: that of the matrices, or of the output channels."""
    values = np.random.default_rng(8).standard_normal(shape) * np.linspace(1, 3, shape[0])[:, None, None]
    stacked = name in EXPERTS
    matrices = values if stacked else values.reshape(1, shape[0], -1)
    rows = values.reshape(-1, shape[-1]) if stacked else values.reshape(shape[0], -1)
    error = rows - np.round(rows / (scale := np.abs(rows).max(1, keepdims=True) / 127)) * scale
    ratio = 10 * np.log10(np.square(rows).sum() / np.square(error).sum())
    turned = np.ascontiguousarray(values.transpose(1, 2, 0)).transpose(2, 0, 1)
    for tensor in (values, turned):
        row = spectra_of(name, torch.as_tensor(tensor))
        true = max(np.linalg.svd(each, compute_uv=False)[0] for each in matrices)
        assert row.spectral.norm == pytest.approx(true, rel=1e-6)
        norms = np.linalg.norm(rows, axis=1)
        assert (row.rows.count, row.rows.max) == (len(norms), pytest.approx(norms.max()))
        (int8,) = (each.sqnr_db for each in row.roundings if (each.format, each.scope) == ("int8", "channel"))
        assert int8 == pytest.approx(ratio, abs=0.01)


def test_the_norm_is_the_largest_singular_value_of_random_matrices():
    """A looser tolerance stops where the residual is small, at another singular value than the largest."""
    generator = np.random.default_rng(9)
    for shape in [(256, 256), (64, 576), (128, 1024), (512, 512)] * 5:
        matrix = generator.uniform(-1, 1, shape)
        found, true = spectral(blocks_of(matrix, 512), shape[1]), np.linalg.svd(matrix, compute_uv=False)[0]
        assert abs(found.norm - true) <= min(found.norm_error, 1e-5 * true)


KINDS = {
    "normal": lambda one, many: many,
    "low rank": lambda one, many: many[:, :3] @ many[:3] + 1e-3 * many,
    "equal largest values": lambda one, many: np.diag(np.where(np.arange(len(many)) < 2, 10.0, 1.0)),
    "twice the same block": lambda one, many: np.kron(np.eye(2), one),
    "orthogonal": lambda one, many: np.linalg.qr(many)[0],
    "one outlier": lambda one, many: many + 400.0 * (np.add.outer(np.arange(len(many)), np.arange(len(many))) == 9),
    "decaying": lambda one, many: many * np.linspace(1, 0, len(many)) ** 4,
    "half of it zero": lambda one, many: np.where(np.arange(len(many)) % 2, many, 0.0),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [1, 4, 20, 64])
def test_the_effective_rank_lies_between_its_bounds_however_far_the_iteration_came(kind, steps):
    generator = np.random.default_rng(7)
    matrix = KINDS[kind](generator.standard_normal((90, 90)), generator.standard_normal((180, 180)))
    found = spectral(blocks_of(matrix), 180, max_steps=steps)
    least, most = bounds_of(found)
    assert 1 - 1e-9 <= least <= most <= 180 * (1 + 1e-9)
    exact = true_effective_rank(matrix)
    assert exact * (1 - 1e-9) <= most
    top = np.linalg.svd(matrix, compute_uv=False)[0]
    if found.norm + found.norm_error >= top:  # the lower bound is that of a norm that is the largest
        assert least <= exact * (1 + 1e-9)


def test_the_bounds_are_close_for_a_low_rank_and_the_lower_one_reaches_the_stable_rank():
    values = np.random.default_rng(10).standard_normal((200, 200))
    found = spectral(blocks_of(values), 200)
    assert found.effective_rank_least >= found.stable_rank * 0.99
    low = spectral(blocks_of(values[:, :2] @ values[:2]), 200)
    assert low.effective_rank_least == pytest.approx(low.effective_rank_most, rel=1e-6)


@pytest.mark.parametrize("shape", [(128, 128), (128, 300), (300, 128), (7, 900), (64, 3, 5, 5)])
def test_matrices_of_few_rows_or_columns_have_their_whole_spectrum(shape):
    values = np.random.default_rng(11).standard_normal(shape)
    matrix = values.reshape(shape[0], -1)
    true = np.linalg.svd(matrix, compute_uv=False)
    found = spectra_of("w", torch.as_tensor(values)).spectral
    assert np.abs(np.array(found.singular_values) - true).max() <= 1e-9 * true[0]
    assert abs(found.norm - true[0]) <= found.norm_error <= 1e-9 * true[0]
    assert bounds_of(found) == pytest.approx([true_effective_rank(matrix)] * 2, rel=1e-9)
    assert (found.stable_rank, found.steps) == (pytest.approx((true**2).sum() / true[0] ** 2), 0)


@settings(max_examples=40, deadline=None)
@given(exponent=st.integers(-900, 900), side=st.sampled_from([20, 150]))
def test_a_power_of_two_scales_the_spectrum_and_its_bound_exactly(exponent, side):
    values = np.random.default_rng(12).uniform(1, 2, (160, side))
    one, other = (with_spectrum_of(np.ldexp(values, power)).spectral for power in (0, exponent))
    assert other.norm == math.ldexp(one.norm, exponent)
    assert other.norm_error == math.ldexp(one.norm_error, exponent)
    assert other.singular_values == tuple(math.ldexp(value, exponent) for value in one.singular_values)
    assert (other.stable_rank, *bounds_of(other)) == (one.stable_rank, *bounds_of(one))


@pytest.mark.parametrize(
    ("dtype", "scale"), [(np.float32, 1e-41), (np.float64, 1e-310), (np.float64, 1e-160), (np.float64, 1e306)]
)
def test_the_bound_holds_for_tiny_and_huge_values(dtype, scale):
    """Compared with exact integers: denormal values are whole multiples of the smallest one."""
    values = (np.random.default_rng(13).standard_normal((200, 150)) * scale).astype(dtype)
    exponent = math.frexp(float(np.abs(values).max()))[1]
    true = np.linalg.svd(np.ldexp(values.astype(np.float64), -exponent), compute_uv=False)[0]
    found = with_spectrum_of(values).spectral
    norm, error = (math.ldexp(value, -exponent) for value in (found.norm, found.norm_error))
    assert abs(norm - true) <= error + 1e-12 * true
    assert error <= 1e-3 * true


def test_a_stack_of_matrices_of_very_different_scales_has_the_spectrum_of_the_largest():
    values = np.random.default_rng(14).standard_normal((3, 40, 50))
    stack = values * np.array([1e-300, 1e-150, 1e-200])[:, None, None]
    true = np.linalg.svd(values[1], compute_uv=False)[0]
    found = with_spectrum_of(stack, "experts").spectral
    assert found.norm == pytest.approx(1e-150 * true, rel=1e-12)


def test_a_norm_that_overflows_is_unknown_with_the_reason():
    row = with_spectrum_of(np.full((9, 9), 1e308))
    assert (row.spectral, row.note) == (None, "spectrum not computed: the norm overflows float64")
    assert with_spectrum_of(np.full((9, 9), 1e307)).spectral.norm == pytest.approx(9e307)
