"""Each function of the native kernel compared with the numpy reference, in every build that this processor runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from weight_tensors import encoded

from assay.checkpoint.statistics import reference
from assay.checkpoint.statistics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, UINT32, UINT64
from assay.checkpoint.statistics.kernel import is_native, kernel
from assay.checkpoint.statistics.layout import BINS, PRUNE_SHARES, ROW_FIELDS, SUM_FIELDS, TABLE_FIELDS
from assay.document.weights import QUANTILES

pytestmark = pytest.mark.skipif(not is_native(), reason="the native kernel is not built")

FORMATS = {"bfloat16": BFLOAT16, "float16": FLOAT16, "float32": FLOAT32, "float64": FLOAT64}
SHAPES = [(1, 1), (3, 128), (5, 300), (2, 4097), (70, 3), (1, 9000)]


def data_of(kind, shape, dtype):
    x = np.random.default_rng(3).standard_normal(shape)
    scale = {"normal": 0.02, "tiny": 1e-42, "huge": 1e30, "odd": 1.0, "outlier": 0.01}[kind]
    x = x * scale
    if kind == "odd":
        x.flat[:: max(1, x.size // 7)] = np.nan
        x.flat[1 :: max(2, x.size // 5)] = np.inf
        x[-1] = 0
    if kind == "outlier":
        x.flat[x.size // 2] = 3e4
    return np.frombuffer(encoded(x, dtype), np.uint8)


def assert_same_records(actual, expected):
    """Check that sums agree to single precision; errors much smaller than the energy count as zero."""
    energy = expected[:, :1]
    for index, name in enumerate(ROW_FIELDS):
        # Rounding errors are differences of nearly equal numbers, so they have fewer significant digits.
        part, floor = (2e-4, 1e-11 * energy[:, 0]) if name.startswith("int") else (2e-5, 0.0)
        value, true = actual[:, index], expected[:, index]
        assert (np.abs(value - true) <= part * np.abs(true) + floor).all(), name
    # Sums that cancel are compared relative to the size of their terms.
    rest, truth = actual[:, len(ROW_FIELDS) :], expected[:, len(ROW_FIELDS) :]
    floor = 1e-12 * np.abs(truth).max(axis=1, initial=0.0, keepdims=True)
    assert (np.abs(rest - truth) <= 1e-11 * np.abs(truth) + floor).all()


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("kind", ["normal", "tiny", "huge", "odd", "outlier"])
def test_rows(dtype, kind):
    for rows, cols in SHAPES:
        data = data_of(kind, (rows, cols), dtype)
        arguments = (data, FORMATS[dtype], rows, cols, 2, True)
        actual, expected = kernel.rows(*arguments), reference.rows(*arguments)
        for one, other in zip((*actual[0], actual[3]), (*expected[0], expected[3]), strict=True):
            np.testing.assert_array_equal(one, other)
        assert_same_records(actual[1], expected[1])
        np.testing.assert_allclose(actual[2].sum(axis=0), expected[2].sum(axis=0), rtol=2e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["normal", "tiny", "huge", "odd", "outlier"])
def test_refining(dtype, kind):
    for shape in SHAPES:
        data = data_of(kind, shape, dtype)
        item = 4 if dtype == "float32" else 8
        numbers = data.view(f"<f{item}").astype(np.float64)
        peak = float(np.abs(np.where(np.isfinite(numbers), numbers, 0)).max())
        tops = np.unique(data.view(f"<u{item}") >> (8 * item - 16)).astype(np.uint64)[:9]
        slots = np.zeros(65536, dtype=np.uint8)
        slots[tops.astype(np.int64)] = np.arange(1, tops.size + 1)
        # A third of the prefixes have only a list, a third only two edges, and a third have both.
        places = np.arange(tops.size)
        lists, edge_counts = np.where(places % 3 < 2, places + 1, 0), np.where(places % 3 > 0, 2, 0)
        firsts = np.concatenate(([0], np.cumsum(edge_counts)[:-1]))
        prefixes = np.stack((tops, lists, firsts, edge_counts), axis=1).astype(np.uint64)
        spans = np.arange(int(edge_counts.sum()), dtype=np.uint64)
        edges = np.stack((spans * np.uint64(3000), spans * np.uint64(2500) + np.uint64(1)), axis=1)
        above = np.array([np.float32(peak * part) for part in np.linspace(0.1, 0.9, 7)], dtype=np.float64)
        arguments = (data, FORMATS[dtype], 8 * item - 32, slots, prefixes, edges, True, 1000, peak, above)
        actual, expected = kernel.refine(*arguments), reference.refine(*arguments)
        for place in range(3):
            np.testing.assert_array_equal(actual[place], expected[place])
        floor = 1e-12 * np.nansum(np.where(np.isfinite(numbers), numbers, 0) ** 2)
        np.testing.assert_allclose(actual[3], expected[3], rtol=2e-5, atol=floor)


@pytest.mark.parametrize("format", [INT32, UINT32, INT64, UINT64])
def test_integers(format):
    size = 4 if format in (INT32, UINT32) else 8
    data = np.random.default_rng(5).integers(0, 256, 800 * size, dtype=np.uint8)
    actual, expected = kernel.integers(data, format, 300), reference.integers(data, format, 300)
    for one, other in zip((*actual[0], actual[2]), (*expected[0], expected[2]), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(actual[1], expected[1], rtol=1e-9)


def test_counting_and_digests():
    data = np.random.default_rng(6).integers(0, 256, 30_002, dtype=np.uint8)
    np.testing.assert_array_equal(kernel.count16(data), reference.count16(data))
    np.testing.assert_array_equal(kernel.digests(data, 9000), reference.digests(data, 9000))
    changed = data.copy()
    changed[12_345] ^= 0x80
    assert (kernel.digests(changed, 9000) != kernel.digests(data, 9000)).any(axis=1).tolist() == [
        False,
        True,
        False,
        False,
    ]


def test_digest_of_a_negated_tensor_differs():
    data = np.random.default_rng(6).standard_normal(8192).astype("<f4")
    actual = kernel.digests(data.view(np.uint8), 1 << 20)
    assert (actual != kernel.digests((-data).view(np.uint8), 1 << 20)).all()


@pytest.mark.parametrize("item", [4, 8])
def test_distinct(item):
    data = np.repeat(np.random.default_rng(8).integers(0, 40, 500), np.arange(500) % 70 + 1)
    data = data.astype(f"<u{item}").view(np.uint8)
    np.testing.assert_array_equal(kernel.distinct(data, item, 50), reference.distinct(data, item, 50))
    assert kernel.distinct(data, item, 20)[0].size == reference.distinct(data, item, 20)[0].size == 21
    assert kernel.distinct(data[: 3 * item], item, 20)[1].sum() == 3


@pytest.mark.parametrize("item", [4, 8])
@pytest.mark.parametrize("count", [0, 1, 127, 128, 2048, 65_536])
@pytest.mark.parametrize("kind", ["normal", "bits", "few", "equal", "whole"])
def test_every_distinct_value_of_a_small_tensor(item, count, kind):
    """Ascending by bit pattern, with their counts, whatever digits the values share."""
    generator = np.random.default_rng(14)
    values = {
        "normal": lambda: generator.standard_normal(count).astype(f"<f{item}"),
        "bits": lambda: generator.integers(0, 1 << 8 * item, count, dtype=np.uint64).astype(f"<u{item}"),
        "few": lambda: generator.integers(0, 300, count).astype(f"<f{item}"),
        "equal": lambda: np.full(count, -1.5, dtype=f"<f{item}"),
        "whole": lambda: generator.integers(-9, 9, count).astype(f"<i{item}"),
    }[kind]()
    expected = np.unique(values.view(f"<u{item}"), return_counts=True)
    for limit in (65_536, max(count, 1)):
        found, counts = kernel.distinct(values.view(np.uint8), item, limit)
        np.testing.assert_array_equal((found[0], counts[0]), expected)


@pytest.mark.parametrize("kind", [np.uint32, np.uint64])
def test_entropy(kind):
    generator = np.random.default_rng(15)
    for counts in (generator.poisson(3, 65_536), generator.poisson(9000, 1000), [0, 7, 0], [5, 5, 5, 5], [0], []):
        table = np.array(counts, dtype=kind)
        shares = table[table > 0] / np.longdouble(max(1, table.sum()))
        expected = float(-(shares * np.log2(shares)).sum())
        assert kernel.entropy(table) == pytest.approx(expected, rel=1e-12, abs=1e-13)
        assert reference.entropy(table) == pytest.approx(expected, rel=1e-12, abs=1e-13)


def test_sorted():
    matches = np.random.default_rng(9).integers(0, 1 << 24, 9000).astype(np.uint32) & 0xFF00FF
    np.testing.assert_array_equal(kernel.sorted(matches), reference.sorted(matches))
    np.testing.assert_array_equal(kernel.sorted(matches[:7]), np.sort(matches[:7])[None])
    assert kernel.sorted(matches[:0]).size == 0


@pytest.mark.parametrize("item", [4, 8])
@pytest.mark.parametrize("counted", [False, True])
def test_magnitudes(item, counted):
    generator = np.random.default_rng(10)
    keys = np.sort((generator.integers(1, 5, 3000) << 16 | generator.integers(0, 300, 3000)).astype(np.uint32))
    counts = np.zeros(0, dtype=np.uint64)
    if counted:
        keys, frequencies = np.unique(keys, return_counts=True)
        counts = frequencies.astype(np.uint64)
    prefix = 0x3F80 if item == 4 else 0x3FF000000000
    queries = np.array([[prefix, 1, 3, 700], [prefix, 2, 4, 0], [prefix, 4, 0, 20]], dtype=np.uint64)
    actual, expected = (each.magnitudes(keys, counts, item, queries) for each in (kernel, reference))
    np.testing.assert_array_equal(actual[0], expected[0])
    np.testing.assert_allclose(actual[1], expected[1], rtol=1e-12)


@pytest.mark.parametrize("kind", ["normal", "one", "negative", "zero", "tiny", "huge", "integers"])
def test_table(kind):
    generator = np.random.default_rng(11)
    values = {
        "normal": generator.standard_normal(1234),
        "one": np.array([2.5]),
        "negative": -np.abs(generator.standard_normal(77)),
        "zero": np.zeros(1),
        "tiny": generator.standard_normal(50) * 1e-40,
        "huge": generator.standard_normal(9) * 1e200,
        "integers": np.arange(-40.0, 60.0),
    }[kind]
    raws = np.sort(np.unique(np.concatenate((values, [np.nan, np.inf, -0.0]))).view("<u8"))
    counts = generator.integers(1, 90, raws.size).astype(np.uint64)
    form = (np.zeros(0), FLOAT64, 0, 64, np.finfo("<f8").tiny, np.array(QUANTILES), np.array(PRUNE_SHARES), 1e-3)
    with np.errstate(over="ignore", invalid="ignore"):
        actual, expected = (module.table(raws, counts, counts * 3, *form)[0] for module in (kernel, reference))
    facts, sums = slice(0, len(TABLE_FIELDS)), slice(len(TABLE_FIELDS), len(TABLE_FIELDS) + len(SUM_FIELDS))
    ordered = slice(sums.stop, sums.stop + len(QUANTILES) + BINS)
    np.testing.assert_allclose(actual[facts], expected[facts], rtol=1e-14)
    np.testing.assert_array_equal(actual[ordered], expected[ordered])
    exact = [sums.start + SUM_FIELDS.index(name) for name in ("n", "zeros", "near_zeros", "peak")]
    np.testing.assert_array_equal(actual[exact], expected[exact])
    size, energy, m2 = (expected[sums.start + SUM_FIELDS.index(name)] for name in ("l1", "energy", "m2"))
    floors = np.zeros_like(expected)
    floors[sums.start + 1], floors[sums.start + 3] = 1e-15 * size, 1e-12 * m2 * np.abs(values).max()
    # Errors much smaller than the energy count as zero.
    floors += 1e-25 * energy if np.isfinite(energy) else 0.0
    finite = np.isfinite(expected) & np.isfinite(actual)
    assert (np.abs(actual[finite] - expected[finite]) <= 1e-9 * np.abs(expected[finite]) + floors[finite]).all()
    assert np.isfinite(actual).tolist() == np.isfinite(expected).tolist()


def test_tables_are_empty_after_a_call():
    """Each call counts only its own values, however the tables are read."""
    few, many = np.arange(300, dtype="<u2").view(np.uint8), np.arange(3000, dtype="<u2").view(np.uint8)
    for _ in range(2):
        for data in (few, many):
            (patterns, counts), *_ = kernel.rows(data, BFLOAT16, 1, data.size // 2, 1, False)
            assert (patterns.size, set(counts[0].tolist())) == (data.size // 2, {1})


def test_tally():
    matches = np.array([3, 3, 9, 500], dtype=np.uint32)
    actual, expected = np.zeros(10, dtype=np.uint64), np.zeros(10, dtype=np.uint64)
    kernel.tally(matches, actual)
    reference.tally(matches, expected)
    assert actual.tolist() == expected.tolist() == [0, 0, 0, 2, 0, 0, 0, 0, 0, 1]


SCRIPT = """
import json, numpy as np
from assay.checkpoint.statistics.kernel import kernel, name
x = (np.random.default_rng(1).standard_normal((9, 1111)) * 0.02).astype("<f4")
out = [name()]
for format, data in ((0, (x.view("<u4") >> 16).astype("<u2")), (1, x.astype("<f2")), (2, x), (3, x.astype("<f8"))):
    raw = data.view(np.uint8).reshape(-1)
    (patterns, counts), tiles, columns, _ = kernel.rows(raw, format, 9, 1111, 4, True)
    out += [patterns.tolist(), counts.tolist(), tiles.tolist(), columns.sum(axis=0).tolist()]
print(json.dumps(out))
"""


def test_builds_for_other_processors_agree():
    outputs = {}
    for isa in ("baseline", "avx2", "avx512"):
        environment = {**os.environ, "ASSAY_ISA": isa, "PYTHONPATH": os.pathsep.join(sys.path)}
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
        )
        name, *rest = json.loads(run.stdout)
        outputs[name] = rest
    assert "baseline" in outputs
    for name, rest in outputs.items():
        for actual, expected in zip(rest, outputs["baseline"], strict=True):
            np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=1e-12, err_msg=name)
        assert rest[0] == outputs["baseline"][0]
