"""Values whose squares or fourth powers overflow or underflow float64, compared with exact rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from weight_tensors import measured

SCALES = (1e-300, 1e-200, 1e-160, 1e-100, 1.0, 1e100, 1e160, 1e200, 1e300)


def root(value):
    """The square root of a fraction as a float, whatever its scale."""
    shift = (value.numerator.bit_length() - value.denominator.bit_length()) // 2 * 2
    return math.ldexp(math.sqrt(value / Fraction(2) ** shift), shift // 2)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("shape", [(6, 10), (96, 100)])
def test_moments_and_norms_at_every_scale(scale, shape):
    x = np.random.default_rng(2).standard_normal(shape)
    x[2] = 0
    x *= scale
    row = measured(x.tobytes(), "float64", shape)
    exact = [Fraction(value) for value in x.ravel().tolist()]
    mean = sum(exact) / len(exact)
    variance = sum((value - mean) ** 2 for value in exact) / len(exact)
    energy = sum(value**2 for value in exact)
    assert row.mean == pytest.approx(float(mean), rel=1e-9)
    assert row.std == pytest.approx(root(variance), rel=1e-12)
    assert row.l2 == pytest.approx(root(energy), rel=1e-12)
    assert row.l1 == pytest.approx(float(sum(map(abs, exact))), rel=1e-12)
    kurtosis = sum((value - mean) ** 4 for value in exact) / len(exact) / variance**2 - 3
    assert row.kurtosis == pytest.approx(float(kurtosis), rel=1e-9)
    assert (row.rows.dead, row.rows.min, row.columns.dead) == (1, 0.0, 0)
    assert row.rows.max == pytest.approx(root(max(sum(Fraction(v) ** 2 for v in r.tolist()) for r in x)), rel=1e-12)
    assert (row.zeros, row.min, row.max) == (shape[1], x.min(), x.max())
    near = 1e-3 * root(energy / len(exact))
    assert row.near_zeros == np.count_nonzero(np.abs(x) <= near)
    unscaled = measured((x / scale).tobytes(), "float64", shape)
    assert [point.energy for point in row.pruning] == pytest.approx([p.energy for p in unscaled.pruning], rel=1e-9)
    ratios = {(each.format, each.scope): each.sqnr_db for each in row.roundings if each.format != "bfloat16"}
    expected = {(each.format, each.scope): each.sqnr_db for each in unscaled.roundings if each.format != "bfloat16"}
    assert ratios == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "int16", "uint16", "int8", "uint8"])
@pytest.mark.parametrize("count", [300, 60_000, 200_000])
def test_near_zeros_of_all_integers(dtype, count):
    limits = np.iinfo(dtype)
    x = np.random.default_rng(4).standard_normal(count) * min(1e9, 0.3 * limits.max)
    x[::7] *= 1e-4
    x = np.clip(x, limits.min, limits.max).astype(dtype)
    row = measured(x.tobytes(), dtype, x.shape)
    wide = x.astype(np.float64)
    assert row.near_zeros == np.count_nonzero(np.abs(wide) <= 1e-3 * np.sqrt(np.mean(wide**2)))
    assert 0 < row.near_zeros < count


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [40, 40_000])
def test_bfloat16_that_overflows_has_no_ratio(dtype, count):
    x = np.random.default_rng(6).standard_normal(count).astype(dtype)
    x[:3] = 3.4e38, -3.4e38, 3.38e38
    of = {each.format: each for each in measured(x.tobytes(), dtype, (count,)).roundings if each.scope == "none"}
    assert (of["bfloat16"].overflows, of["bfloat16"].sqnr_db, of["bfloat16"].exact) == (2, None, False)


@pytest.mark.parametrize(("scale", "ratio", "overflows"), [(1e-200, 0.0, 0), (1e200, None, 60)])
def test_bfloat16_of_extreme_float64(scale, ratio, overflows):
    x = (1 + np.random.default_rng(6).random((6, 10))) * scale
    of = {each.format: each for each in measured(x.tobytes(), "float64", x.shape).roundings if each.scope == "none"}
    assert (of["bfloat16"].sqnr_db, of["bfloat16"].overflows) == (ratio, overflows)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e77, 1e100, 1e153, 1e200, 1e300])
def test_tensors_of_several_tiles_and_passes(scale):
    x = np.random.default_rng(0).standard_normal((600, 700))
    row, usual = (measured((x * factor).tobytes(), "float64", x.shape) for factor in (scale, 1.0))
    assert row.problem == ""
    for name in ("mean", "std", "l1", "l2"):
        assert getattr(row, name) == pytest.approx(getattr(usual, name) * scale, rel=1e-9), name
    assert (row.rows.dead, row.columns.dead, row.near_zeros) == (0, 0, usual.near_zeros)
    assert (row.rows.min, row.rows.std) == (
        pytest.approx(usual.rows.min * scale),
        pytest.approx(usual.rows.std * scale),
    )
    assert row.kurtosis == pytest.approx(usual.kurtosis, rel=1e-9)


@pytest.mark.parametrize("outlier", [1e100, 1e153, 1e250, 1.7e308])
@pytest.mark.parametrize("shape", [(60, 70), (600, 700)])
def test_one_extreme_value_among_usual_ones(outlier, shape):
    x = np.random.default_rng(0).standard_normal(shape)
    x[3, 5] = outlier
    row = measured(x.tobytes(), "float64", shape)
    assert (row.problem, row.max, row.l2) == ("", outlier, pytest.approx(outlier))
    assert row.quantiles[5] == pytest.approx(np.median(x))
    assert row.pruning[0].energy == pytest.approx(1)


def test_rows_of_very_different_scales_are_not_dead():
    x = np.random.default_rng(1).standard_normal((60, 130))
    x[3] *= 1e-300
    x[4] *= 1e200
    x[5] = 0
    row = measured(x.tobytes(), "float64", x.shape)
    assert (row.rows.dead, row.rows.min, row.columns.dead) == (1, 0.0, 0)
    assert row.rows.max == pytest.approx(1e200 * np.linalg.norm(x[4] / 1e200))
