"""Spectra compared with numpy's full singular value decomposition."""

from __future__ import annotations

import numpy as np
import pytest

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


def test_non_finite_values_count_as_zero():
    matrix = np.diag([3.0, 2.0, 1.0])
    broken = matrix.copy()
    broken[0, 1], broken[2, 0] = np.nan, np.inf
    assert spectral(blocks_of(broken), 3).norm == pytest.approx(3.0)


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
