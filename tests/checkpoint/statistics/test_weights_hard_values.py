"""Outliers, overflows, denormals and values that are not finite: what is exact stays exact, in every build."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from weight_tensors import measured

from assay.checkpoint.statistics import reference
from assay.checkpoint.statistics.dtypes import FLOAT32, FLOAT64
from assay.checkpoint.statistics.kernel import is_native, kernel
from assay.checkpoint.statistics.layout import CAST_FIELDS, ERROR_FIELDS, MOMENT_FIELDS, PRUNE_SHARES, ROW_FIELDS
from assay.document.weights import QUANTILES

FORMATS = {"float32": FLOAT32, "float64": FLOAT64}
SHAPE = (80, 256)
NOTHING = np.zeros((0, 4), dtype=np.uint64), np.zeros((0, 2), dtype=np.uint64)


def drawn(kind, dtype="float32", shape=SHAPE):
    """Values of a kind that is hard to sum."""
    generator = np.random.default_rng(21)
    x = generator.standard_normal(shape)
    name, _, number = kind.partition(" ")
    if name == "outlier":
        x.flat[7777 % x.size] = float(number)
    elif name == "outliers":
        x.flat[:: int(number)] = 1e4
    elif name == "cauchy":
        x = generator.standard_cauchy(shape)
    elif name == "lognormal":
        x = np.exp(5 * x)
    elif name == "close":
        x = 1 + 1e-3 * x
    elif name == "scaled":
        x *= float(number)
    elif name == "nonfinite":
        x.flat[::100], x.flat[1::1000], x.flat[2::3000] = np.nan, np.inf, -np.inf
    elif name == "bits":
        size = int(np.dtype(dtype).itemsize * np.prod(shape))
        return generator.integers(0, 256, size, dtype=np.uint8).view(dtype).reshape(shape)
    with np.errstate(over="ignore", under="ignore"):
        return x.astype(dtype)


KINDS = (
    *(f"outlier 1e{power}" for power in (2, 3, 4, 5, 6, 8, 12, 18, 20, 30, 38)),
    *("outliers 1000", "outliers 3", "cauchy", "lognormal", "close", "nonfinite"),
    *(f"scaled {scale}" for scale in ("1e-41", "1e-20", "1e18", "1e30")),
)


@pytest.mark.parametrize("distinct", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_pruning_is_exact_beside_outliers(kind, distinct):
    """One large square must not absorb small ones: both what is kept and what is removed are exact."""
    x = drawn(kind)
    if not distinct:
        x = np.resize(x.flat[6000:9000], SHAPE)
    statistics = measured(x.tobytes(), "float32", SHAPE)
    assert (statistics.distinct is None) == distinct
    squares = np.sort(np.abs(x[np.isfinite(x)]).astype(np.longdouble)) ** 2
    assert [point.share for point in statistics.pruning] == list(PRUNE_SHARES)
    for point in statistics.pruning:
        removed = squares[: int(point.share * squares.size)].sum()
        kept = squares[int(point.share * squares.size) :].sum()
        assert abs(point.energy - kept / (kept + removed)) < 1e-13
        assert abs((1 - np.longdouble(point.energy)) - removed / (kept + removed)) < 1e-13


@pytest.mark.skipif(not is_native(), reason="the native kernel is not built")
@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("kind", [*KINDS, "bits", "scaled 1e-44", "scaled 3e38", "scaled 1e-308"])
def test_errors_of_a_refining_pass(dtype, kind):
    x = drawn(kind, dtype)
    finite = x[np.isfinite(x)].astype(np.float64)
    peak = float(np.abs(finite).max(initial=0.0))
    above = np.quantile(np.abs(finite), PRUNE_SHARES).astype(dtype).astype(np.float64)
    data, slots = x.reshape(-1).view(np.uint8), np.zeros(65536, dtype=np.uint8)
    arguments = (data, FORMATS[dtype], 0, slots, *NOTHING, True, 5000, peak, above)
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        actual, expected = kernel.refine(*arguments)[3], reference.refine(*arguments)[3]
        floor = 1e-14 * (finite * finite).sum()  # errors of at most 1e-12 of the energy count as none
    valid = np.isfinite(expected)
    floors = np.broadcast_to(floor if np.isfinite(floor) else 0.0, expected.shape)
    counted = ERROR_FIELDS.index("bfloat16_overflows")
    np.testing.assert_array_equal(actual[:, counted], expected[:, counted])
    tolerance = 2e-5 * np.abs(expected) + floors
    tolerance[:, counted + 1 :] = 1e-13 * np.abs(expected[:, counted + 1 :])
    tolerance[:, counted] = 0
    assert (np.abs(actual[valid] - expected[valid]) <= tolerance[valid]).all()


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("few", [False, True])
def test_values_that_overflow_bfloat16(dtype, few):
    """Counted by rounding the bits; the error is that of the other values."""
    largest, tie = float.fromhex("0x1.fep127"), float.fromhex("0x1.ffp127")
    x = drawn("scaled 1e38")
    x.flat[:8] = [largest, -largest, tie, -tie, np.nextafter(np.float32(tie), np.float32(0)), 3.4e38, -3.4e38, 2e38]
    x = np.where(np.isfinite(x), x, 1.0).astype(np.float32)
    raw = x.view(np.uint32).astype(np.uint64)
    halves = (raw + np.uint64(0x7FFF) + (raw >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)
    overflows = (halves & np.uint64(0x7FFF)) == 0x7F80
    rounded = (halves.astype(np.uint32) << 16).view(np.float32).astype(np.longdouble)
    error = float(np.where(overflows, 0, (x.astype(np.longdouble) - rounded) ** 2).sum())
    assert overflows.sum() == 4
    if few:
        raws, counts = np.unique(x.astype(np.float64).view(np.uint64), return_counts=True)
        times = counts.astype(np.uint64)
        numbers, quantiles, shares = np.zeros(0), np.array(QUANTILES), np.array(PRUNE_SHARES)
        record = kernel.table(raws, times, times, numbers, FLOAT64, 0, 64, 1e-300, quantiles, shares, 1e-3)[0]
        sums = dict(zip(CAST_FIELDS, record[-len(CAST_FIELDS) :], strict=True))
    else:
        slots, above = np.zeros(65536, dtype=np.uint8), np.zeros(7)
        data, peak = x.astype(dtype).reshape(-1).view(np.uint8), float(np.abs(x).max())
        records = kernel.refine(data, FORMATS[dtype], 0, slots, *NOTHING, True, 5000, peak, above)[3]
        sums = dict(zip(ERROR_FIELDS, records.sum(axis=0), strict=True))
    assert sums["bfloat16_overflows"] == overflows.sum()
    assert sums["bfloat16"] == pytest.approx(error, rel=1e-6)


def test_float64_rounds_in_one_step_to_bfloat16():
    """The largest values overflow, those float32 cannot hold too; the smallest become denormals or 0."""
    x = np.array([1e39, -1e300, 3.39e38, 9.2e-41, 4e-41, 1.4e-40])
    records = kernel.refine(
        x.view(np.uint8), FLOAT64, 0, np.zeros(65536, dtype=np.uint8), *NOTHING, True, 6, 1e300, np.zeros(7)
    )[3]
    sums = dict(zip(ERROR_FIELDS, records[0], strict=True))
    step, top = 2.0**-133, float.fromhex("0x1.fep127")
    errors = [3.39e38 - top, 9.2e-41 - step, 4e-41, 1.4e-40 - 2 * step]
    assert sums["bfloat16_overflows"] == 2
    assert sums["bfloat16"] == pytest.approx(sum(error * error for error in errors), rel=1e-12)


@pytest.mark.skipif(not is_native(), reason="the native kernel is not built")
@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("kind", ["nonfinite", "bits", "outlier 1e30", "scaled 1e-41"])
@pytest.mark.parametrize("size", [1, 15, 1000, 4096, 30_001])
def test_moments_leave_out_what_is_not_finite(dtype, kind, size):
    x = drawn(kind, dtype, (1, size))
    if dtype == "float64" and kind == "bits":
        x = np.where(np.abs(x) < 1e70, x, np.where(np.isfinite(x), 1.0, x))  # fourth powers must not overflow
    data = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
    arguments = (data, FORMATS[dtype], 1, size, 1, False)
    with np.errstate(over="ignore", invalid="ignore"):
        actual, expected = (each.rows(*arguments)[1][0, len(ROW_FIELDS) :] for each in (kernel, reference))
    sums = dict(zip(MOMENT_FIELDS, zip(actual, expected, strict=True), strict=True))
    for name in ("finite", "min", "max", "zeros", "infinite"):
        assert sums[name][0] == sums[name][1], name
    peak, n = float(np.abs(x[np.isfinite(x)]).max(initial=0.0)), sums["finite"][1]
    for name, power in (("mean", 1), ("l1", 1), ("m2", 2), ("m3", 3), ("m4", 4)):
        value, true = sums[name]
        assert abs(value - true) <= 1e-11 * abs(true) + 1e-12 * n * peak**power, name


@pytest.mark.skipif(not is_native(), reason="the native kernel is not built")
@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
def test_every_build(isa):
    """Run the comparisons with the reference in the other builds; a processor without an instruction set skips it."""
    environment = {**os.environ, "ASSAY_ISA": isa}
    here = Path(__file__).parent
    files = [str(here / "test_weights_kernel.py"), f"{here / Path(__file__).name}"]
    options = ["-q", "-p", "no:cacheprovider", "-n", "0", "-k", "not build"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout
