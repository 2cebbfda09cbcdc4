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
from assay.checkpoint.statistics.layout import ROW_FIELDS, SUM_FIELDS

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
        arguments = (data, FORMATS[dtype], rows, cols, 2, True, True)
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
    np.testing.assert_array_equal(kernel.count8(data), reference.count8(data))
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
    values, counts = kernel.distinct(data, item, 50)
    order = values[0].argsort()
    np.testing.assert_array_equal((values[0][order], counts[0][order]), np.vstack(reference.distinct(data, item, 50)))
    assert kernel.distinct(data, item, 20)[0].size == reference.distinct(data, item, 20)[0].size == 21
    assert kernel.distinct(data[: 3 * item], item, 20)[1].sum() == 3


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
def test_summary(kind):
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
    values = np.unique(values)
    counts = generator.integers(1, 90, values.size).astype(np.uint64)
    n = int(counts.sum())
    ranks = np.unique(np.linspace(0, n - 1, 13).astype(np.int64)).astype(np.float64)
    edges = np.linspace(values[0], values[-1], 9)[1:-1] if values.size > 1 else np.zeros(0)
    removed = np.array([n * part // 100 for part in (0, 10, 25, 50, 75, 90, 99)], dtype=np.float64)
    arguments = (values, counts, ranks, edges, removed, 1e-3)
    with np.errstate(over="ignore", invalid="ignore"):
        actual, expected = kernel.summary(*arguments)[0], reference.summary(*arguments)[0]
    size = float((counts * np.abs(values)).max())
    floors = np.zeros_like(expected)
    floors[1], floors[3] = 1e-15 * size, 1e-12 * expected[2] * np.abs(values).max()
    finite = np.isfinite(expected) & np.isfinite(actual)
    # Errors much smaller than the energy count as zero.
    floors += 1e-25 * expected[6] if np.isfinite(expected[6]) else 0.0
    assert (np.abs(actual[finite] - expected[finite]) <= 1e-9 * np.abs(expected[finite]) + floors[finite]).all()
    assert np.isfinite(actual).tolist() == np.isfinite(expected).tolist()
    places = slice(len(SUM_FIELDS), len(SUM_FIELDS) + ranks.size + edges.size + 1)
    np.testing.assert_array_equal(actual[places], expected[places])
    assert (actual[0], actual[7], actual[8], actual[10]) == (expected[0], expected[7], expected[8], expected[10])


def test_tables_are_empty_after_a_call():
    """Each call counts only its own values, however the tables are read."""
    few, many = np.arange(300, dtype="<u2").view(np.uint8), np.arange(3000, dtype="<u2").view(np.uint8)
    for _ in range(2):
        for data in (few, many):
            (patterns, counts), *_ = kernel.rows(data, BFLOAT16, 1, data.size // 2, 1, False, True)
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
    (patterns, counts), tiles, columns, _ = kernel.rows(raw, format, 9, 1111, 4, True, True)
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
