"""Spectra compared with numpy's full singular value decomposition."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from assay.api.weights import weights_document
from assay.checkpoint.statistics.settings import StatisticsSettings
from assay.checkpoint.statistics.spectral import spectral


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
    assert spectrum.effective_rank == pytest.approx(1.0, abs=0.05)


def test_effective_rank_of_an_identity_and_of_a_full_spectrum():
    assert spectral(blocks_of(np.eye(32)), 32).effective_rank == pytest.approx(32, rel=0.02)
    matrix = np.random.default_rng(4).standard_normal((50, 20))
    share = np.linalg.svd(matrix, compute_uv=False) ** 2
    share /= share.sum()
    spectrum = spectral(blocks_of(matrix), 20, tolerance=0.0)
    assert spectrum.effective_rank == pytest.approx(np.exp(-(share * np.log(share)).sum()), rel=1e-6)


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
    assert (other.steps, other.effective_rank) == (one.steps, pytest.approx(one.effective_rank))


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
            assert (found.norm, found.norm_error, found.stable_rank, found.effective_rank) == (0, 0, 0, 0)
            assert row.note == ""


@pytest.mark.parametrize("shape", [(1, 700), (700, 1), (1, 600_000), (1, 3, 5, 5)])
def test_the_norm_of_one_row_or_column_is_its_l2_norm(shape):
    values = torch.randn(shape)
    for rows in spectra(one=values):
        found = rows["one"].spectral
        assert found.norm == pytest.approx(values.double().norm().item(), rel=1e-12)
        assert (found.norm_error, found.stable_rank, found.effective_rank) == (0, 1, 1)


def test_what_is_no_matrix_or_not_finite_has_no_spectrum_and_squares_that_overflow_a_reason():
    invalid = {
        "nan": torch.full((4, 4), math.nan),
        "one": torch.diag(torch.tensor([3.0, math.inf])),
        "zeros": torch.tensor([[0.0, 0.0], [math.nan, 0.0]]),
        "row": torch.tensor([[1.0, math.nan]]),
    }
    _, rows = spectra(
        vector=torch.zeros(9), ids=torch.zeros(3, 3).int(), large=torch.eye(9).double() * 1e200, **invalid
    )
    assert [row.spectral for row in rows.values()] == [None] * 7
    notes = {name: row.note for name, row in rows.items() if row.note}
    assert notes == {
        "large": "spectrum not computed: squares overflow or underflow",
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


@pytest.mark.parametrize("shape", [(128, 128), (40, 200), (200, 40)])
def test_the_effective_rank_is_an_upper_bound(shape):
    matrix = np.random.default_rng(7).standard_normal(shape)
    share = np.linalg.svd(matrix, compute_uv=False) ** 2
    share /= share.sum()
    exact = float(np.exp(-(share * np.log(share)).sum()))
    for tolerance in (1e-4, 1e-9, 0.0):
        found = spectral(blocks_of(matrix), shape[1], tolerance).effective_rank
        assert exact * (1 - 1e-9) <= found <= min(shape) * (1 + 1e-9)
