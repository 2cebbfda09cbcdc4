"""All statistics of every dtype compared with float64 numpy, on many kinds of data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from weight_tensors import decoded, encoded, measured

from assay.checkpoint.statistics.chunks import Weight
from assay.checkpoint.statistics.dtypes import DTYPES
from assay.checkpoint.statistics.engine import EngineOptions, run
from assay.checkpoint.statistics.layout import PRUNE_SHARES
from assay.document.weights import QUANTILES

SHAPE = (37, 301)
GENERATOR = np.random.default_rng(7)
NORMAL = GENERATOR.standard_normal(SHAPE)

KINDS = {
    "normal": 0.02 * NORMAL,
    "heavy": 0.02 * GENERATOR.standard_t(2, SHAPE),
    "constant": np.full(SHAPE, 0.375),
    "zero": np.zeros(SHAPE),
    "offset": 1 + 0.02 * NORMAL,
    "huge offset": 1e4 + 3 * NORMAL,
    "mixed": np.where(NORMAL > 1.5, np.nan, np.where(NORMAL < -1.5, -np.inf, NORMAL)),
    "all nan": np.full(SHAPE, np.nan),
    "tiny": 1e-41 * NORMAL,
    "wide": np.exp2(GENERATOR.uniform(-120, 120, SHAPE)) * np.sign(NORMAL),
    "sparse": np.where(np.abs(NORMAL) < 1, -0.0, NORMAL),
}
FLOATS = [name for name, dtype in DTYPES.items() if dtype.real and dtype.parts == 1]
INTEGERS = [name for name, dtype in DTYPES.items() if not dtype.real]


def check_values(row, x):
    """Check the statistics that do not depend on the shape."""
    n, energy = x.size, math.fsum(x * x)
    assert row.min == x.min()
    assert row.max == x.max()
    center = math.fsum(x) / n
    scale = max(abs(row.min), abs(row.max))
    assert row.mean == pytest.approx(center, rel=1e-12, abs=1e-14 * scale)
    d = x - center
    assert row.std == pytest.approx(math.sqrt(math.fsum(d * d) / n), rel=1e-11, abs=1e-14 * scale)
    assert row.l1 == pytest.approx(math.fsum(np.abs(x)), rel=1e-13)
    assert row.l2 == pytest.approx(math.sqrt(energy), rel=1e-12)
    assert row.zeros == (x == 0).sum()
    np.testing.assert_allclose(row.quantiles, np.quantile(x, QUANTILES), rtol=1e-13, atol=1e-15 * scale)
    assert sum(row.histogram.counts) == n
    if x.min() < x.max():
        edges = np.linspace(x.min(), x.max(), 65)
        assert row.histogram.counts == tuple(np.histogram(x, edges)[0])
        m2 = math.fsum(d * d) / n
        if m2 > (1e-10 * scale) ** 2 and m2 > 1e-100:
            assert row.skewness == pytest.approx(math.fsum(d**3) / n / m2**1.5, rel=1e-7, abs=1e-7)
            assert row.kurtosis == pytest.approx(math.fsum(d**4) / n / m2**2 - 3, rel=1e-7, abs=1e-7)


def check_pruning(row, x):
    energy = math.fsum(x * x)
    if not energy or not math.isfinite(energy):
        return
    ordered = np.sort(np.abs(x))
    for point, share in zip(row.pruning, PRUNE_SHARES, strict=True):
        kept = math.fsum(ordered[int(share * x.size) :] ** 2) / energy
        assert point.share == share
        assert point.energy == pytest.approx(kept, rel=1e-6, abs=1e-9)
    assert row.near_zeros == (np.abs(x) <= row.near_zero_below).sum()
    assert row.near_zero_below == pytest.approx(1e-3 * math.sqrt(energy / x.size), rel=1e-6)


def ratio_db(x, rounded):
    error = float(((x - rounded) ** 2).sum())
    energy = float((x * x).sum())
    return None if error <= 1e-12 * energy else 10 * math.log10(energy / error)


def integer_rounded(x, peaks, levels):
    unit = peaks / levels
    safe = np.where(unit > 0, unit, 1.0)
    return np.rint(x / safe) * unit


def check_matrix(row, matrix):
    """Check the row-wise statistics, with non-finite values as zero."""
    x = np.where(np.isfinite(matrix), matrix, 0.0)
    norms = np.sqrt((x * x).sum(axis=1))
    columns = np.sqrt((x * x).sum(axis=0))
    for actual, true in ((row.rows, norms), (row.columns, columns)):
        assert actual.count == true.size
        assert actual.dead == (true == 0).sum()
        assert (actual.min, actual.max, actual.mean) == pytest.approx((true.min(), true.max(), true.mean()), rel=2e-5)
        assert actual.std == pytest.approx(true.std(), rel=1e-3, abs=2e-5 * true.max())
    padded = np.pad(x, ((0, 0), (0, -x.shape[1] % 128)))
    energy = float((x * x).sum())
    if energy:
        for name, keep, of in (("1:4", 1, 4), ("2:4", 2, 4), ("4:8", 4, 8)):
            groups = np.sort((padded * padded).reshape(-1, of), axis=1)
            assert row.n_of_m[name] == pytest.approx(groups[:, of - keep :].sum() / energy, rel=2e-5)
    blocks = padded.reshape(x.shape[0], -1, 128)
    scopes = {
        "tensor": np.abs(x).max(),
        "channel": np.abs(blocks).max(axis=(1, 2), keepdims=True),
        "group128": np.abs(blocks).max(axis=2, keepdims=True),
    }
    roundings = {(each.format, each.scope): each for each in row.roundings}
    for scope, peaks in scopes.items():
        for name, levels in (("int8", 127), ("int4", 7)):
            expected = ratio_db(blocks, integer_rounded(blocks, peaks, levels))
            assert roundings[name, scope].exact == (expected is None), (name, scope)
            if expected is not None:
                assert roundings[name, scope].sqnr_db == pytest.approx(expected, abs=1e-3), (name, scope)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", KINDS)
def test_floats(dtype, kind):
    raw = encoded(KINDS[kind], dtype)
    matrix = decoded(raw, dtype).reshape(SHAPE)
    row = measured(raw, dtype, SHAPE)
    assert row.problem == ""
    assert row.nan == np.isnan(matrix).sum()
    assert row.inf == np.isinf(matrix).sum()
    x = matrix[np.isfinite(matrix)].ravel()
    if not x.size:
        assert row.min is None
        assert row.quantiles == ()
        return
    check_values(row, x)
    check_pruning(row, x)
    if x.any() and np.abs(x).max() < 1e100:
        check_matrix(row, matrix)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(dtype):
    numbers = np.abs(40 * NORMAL).astype(np.int64) % 2 if dtype == "bool" else np.abs(np.rint(60 * NORMAL)) % 250
    if DTYPES[dtype].numpy[1] == "i":
        numbers = numbers - 100
    raw = encoded(np.clip(numbers, -128, 127) if dtype == "int8" else numbers, dtype)
    x = decoded(raw, dtype)
    row = measured(raw, dtype, SHAPE)
    check_values(row, x)
    assert row.distinct == np.unique(x).size
    assert row.roundings == ()
    assert row.denormals is None


def test_64_bit_integers_are_exact():
    numbers = np.array([-(2**63), -1, 0, 2**62 + 1, 2**63 - 1], dtype="<i8")
    row = measured(numbers.tobytes(), "int64", (5,))
    assert (row.min, row.max) == (-(2**63), 2**63 - 1)
    assert isinstance(row.min, int)


@pytest.mark.parametrize(("dtype", "tiny"), [("float16", 2.0**-14), ("bfloat16", 2.0**-126), ("float32", 2.0**-126)])
def test_denormals(dtype, tiny):
    numbers = np.array([0.0, -0.0, tiny, tiny / 2, -tiny / 4, 1.0])
    row = measured(encoded(numbers, dtype), dtype, (6,))
    assert (row.denormals, row.zeros) == (2, 2)
    row = measured(np.array([0.0, 5e-324, 2.0**-1022, 1.0]).tobytes(), "float64", (4,))
    assert (row.denormals, row.zeros) == (1, 1)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_float_rounding_equals_that_of_torch(dtype):
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(0.02 * NORMAL).to(getattr(torch, dtype))
    row = measured(x.numpy().tobytes(), dtype, SHAPE)
    roundings = {each.format: each for each in row.roundings if each.scope in ("none", "tensor")}
    wide = x.double()
    for name, largest in (("float8_e4m3fn", 448.0), ("float8_e5m2", 57344.0), ("bfloat16", None)):
        scale = wide.abs().max().item() / largest if largest else 1.0
        cast = (wide / scale).float().to(getattr(torch, name)).double() * scale
        expected = 10 * torch.log10((wide**2).sum() / ((wide - cast) ** 2).sum()).item()
        assert roundings[name].sqnr_db == pytest.approx(expected, abs=2e-3)


def test_bits_needed_is_the_fewest_that_keep_the_ratio():
    raw = encoded(0.02 * NORMAL, "float32")
    x = decoded(raw, "float32")
    ratios = {bits: ratio_db(x, integer_rounded(x, np.abs(x).max(), 2 ** (bits - 1) - 1)) for bits in range(2, 9)}
    for target in (3.0, 12.0, 25.0, 33.0):
        expected = min(bits for bits, ratio in ratios.items() if ratio >= target)
        for dtype in ("float32", "float64"):
            again = encoded(x, dtype)
            assert measured(again, dtype, SHAPE, target_db=target).bits_needed == expected
    assert measured(raw, "float32", SHAPE, target_db=90.0).bits_needed is None


def test_complex_numbers_are_analysed_as_pairs():
    numbers = NORMAL + 1j * NORMAL[::-1]
    row = measured(numbers.astype("<c8").tobytes(), "complex64", SHAPE)
    parts = numbers.astype("<c8").view("<f4").astype(np.float64)
    check_values(row, parts.ravel())
    assert row.count == numbers.size
    assert (row.numbers, row.rows.count, row.columns) == (2 * numbers.size, SHAPE[0], None)


def test_l1_of_a_large_float32_tensor():
    block = (0.02 * np.random.default_rng(1).standard_normal(1 << 20)).astype("<f4")
    raw = block.tobytes()

    def read(chunk):
        assert chunk.offset % len(raw) == chunk.bytes % len(raw) == 0
        return raw * (chunk.bytes // len(raw))

    weight = Weight(("w",), "float32", (8192, 8192), "file", 0, 1 << 28)
    row = next(iter(run([weight], read, EngineOptions(1))))[1]
    truth = 64 * math.fsum(np.abs(block.astype(np.float64)))
    assert row.l1 == pytest.approx(truth, rel=1e-12)
    assert row.l2 == pytest.approx(math.sqrt(64 * math.fsum(block.astype(np.float64) ** 2)), rel=1e-12)


@pytest.mark.parametrize("levels", [4096, 4097])
def test_statistics_agree_at_and_above_the_limit_of_distinct_values(levels):
    """Up to the limit all values are counted, above it refining passes are used: both agree with numpy."""
    generator = np.random.default_rng(5)
    x = np.concatenate((np.arange(levels), generator.integers(0, levels, 20_000))).astype("<f4") / 512 - 3
    row = measured(x.tobytes(), "float32", (x.size,))
    check_values(row, x.astype(np.float64))
    assert row.distinct == (4096 if levels == 4096 else None)


def test_sparse_and_constant_wide_tensors():
    x = np.random.default_rng(6).standard_normal(60_000).astype("<f4")
    x[np.random.default_rng(7).random(x.size) < 0.9] = 0
    check_values(measured(x.tobytes(), "float32", (200, 300), chunk_bytes=30_000), x.astype(np.float64))
    same = np.full(50_000, 1.5, dtype="<f4")
    row = measured(same.tobytes(), "float32", (50, 1000))
    assert (row.min, row.max, row.mean, row.std, row.distinct, row.entropy_bits) == (
        1.5,
        1.5,
        1.5,
        0,
        1,
        0,
    )
