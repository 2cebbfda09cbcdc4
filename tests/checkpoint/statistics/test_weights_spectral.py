"""Spectral figures against numpy's full decomposition."""

from __future__ import annotations

import numpy as np
import pytest

from assay.checkpoint.statistics.spectral import spectral


def blocks_of(matrix, rows=7):
    return lambda: (matrix[start : start + rows] for start in range(0, matrix.shape[0], rows))


@pytest.mark.parametrize("shape", [(60, 40), (40, 60), (1, 30), (30, 1), (5, 5)])
def test_norm_lies_within_its_bound(shape):
    matrix = np.random.default_rng(1).standard_normal(shape)
    found = spectral(blocks_of(matrix), shape[1], tolerance=1e-9)
    values = np.linalg.svd(matrix, compute_uv=False)
    assert found.norm <= values[0] * (1 + 1e-12)
    assert values[0] <= found.norm + found.norm_error + 1e-9 * values[0]
    assert found.stable_rank == pytest.approx((values**2).sum() / values[0] ** 2, rel=1e-6)
    for given, true in zip(found.singular_values[:2], values, strict=False):
        assert given == pytest.approx(true, rel=1e-3)


def test_few_steps_are_honest_about_their_error():
    matrix = np.random.default_rng(2).standard_normal((300, 300))
    values = np.linalg.svd(matrix, compute_uv=False)
    found = spectral(blocks_of(matrix, 64), 300, most_steps=4)
    assert found.steps == 4
    assert np.abs(values - found.norm).min() <= found.norm_error
    assert found.norm_error > 1e-3 * values[0]


def test_a_gap_stops_early_and_low_rank_is_seen():
    generator = np.random.default_rng(3)
    matrix = np.outer(generator.standard_normal(200), generator.standard_normal(100))
    matrix += 1e-3 * generator.standard_normal((200, 100))
    found = spectral(blocks_of(matrix), 100)
    assert found.steps < 8
    assert found.stable_rank == pytest.approx(1.0, abs=0.01)
    assert found.effective_rank == pytest.approx(1.0, abs=0.05)


def test_effective_rank_of_an_identity_and_a_whole_spectrum():
    assert spectral(blocks_of(np.eye(32)), 32).effective_rank == pytest.approx(32, rel=0.02)
    matrix = np.random.default_rng(4).standard_normal((50, 20))
    share = np.linalg.svd(matrix, compute_uv=False) ** 2
    share /= share.sum()
    found = spectral(blocks_of(matrix), 20, tolerance=0.0)
    assert found.effective_rank == pytest.approx(np.exp(-(share * np.log(share)).sum()), rel=1e-6)


def test_what_is_not_finite_counts_as_zero():
    matrix = np.diag([3.0, 2.0, 1.0])
    broken = matrix.copy()
    broken[0, 1], broken[2, 0] = np.nan, np.inf
    assert spectral(blocks_of(broken), 3).norm == pytest.approx(3.0)


@pytest.mark.parametrize("matrix", [np.zeros((4, 4)), np.zeros((0, 4)), np.zeros((4, 0))])
def test_nothing_there(matrix):
    assert spectral(blocks_of(matrix), matrix.shape[1]) is None
