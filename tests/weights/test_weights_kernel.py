"""The native kernel against the numpy reference, function by function, in every build this processor runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from weight_tensors import encoded

from assay.weights import reference
from assay.weights.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, UINT32, UINT64
from assay.weights.kernel import is_native, kernel
from assay.weights.layout import ROW_FIELDS

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


def assert_same_records(given, wanted):
    """Sums agree to single precision; errors that vanish agree on vanishing beside the energy."""
    energy = wanted[:, :1]
    for place, name in enumerate(ROW_FIELDS):
        # A few values' rounding errors are differences of nearly equal numbers: fewer digits are left.
        part, floor = (2e-4, 1e-11 * energy[:, 0]) if name.startswith("int") else (2e-5, 0.0)
        assert (np.abs(given[:, place] - wanted[:, place]) <= part * np.abs(wanted[:, place]) + floor).all(), name
    # A sum that cancels is right beside the size of what it adds up.
    rest, truth = given[:, len(ROW_FIELDS) :], wanted[:, len(ROW_FIELDS) :]
    floor = 1e-12 * np.abs(truth).max(axis=1, initial=0.0, keepdims=True)
    assert (np.abs(rest - truth) <= 1e-11 * np.abs(truth) + floor).all()


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("kind", ["normal", "tiny", "huge", "odd", "outlier"])
def test_rows(dtype, kind):
    for rows, cols in SHAPES:
        data = data_of(kind, (rows, cols), dtype)
        arguments = (data, FORMATS[dtype], rows, cols, 2, True, True)
        given, wanted = kernel.rows(*arguments), reference.rows(*arguments)
        for one, other in zip((*given[0], given[3]), (*wanted[0], wanted[3]), strict=True):
            np.testing.assert_array_equal(one, other)
        assert_same_records(given[1], wanted[1])
        np.testing.assert_allclose(given[2].sum(axis=0), wanted[2].sum(axis=0), rtol=2e-5)


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
        edges = np.array([np.float32(peak * part) for part in np.linspace(0.1, 0.9, 7)], dtype=np.float64)
        near = float(np.float32(peak / 50))
        arguments = (data, FORMATS[dtype], 8 * item - 32, slots, tops, True, 1000, peak, near, edges)
        given, wanted = kernel.refine(*arguments), reference.refine(*arguments)
        np.testing.assert_array_equal(given[0], wanted[0])
        np.testing.assert_array_equal(given[1], wanted[1])
        floor = 1e-12 * np.nansum(np.where(np.isfinite(numbers), numbers, 0) ** 2)
        np.testing.assert_allclose(given[2], wanted[2], rtol=2e-5, atol=floor)
        np.testing.assert_array_equal(given[2][:, -1], wanted[2][:, -1])


@pytest.mark.parametrize("format", [INT32, UINT32, INT64, UINT64])
def test_integers(format):
    size = 4 if format in (INT32, UINT32) else 8
    data = np.random.default_rng(5).integers(0, 256, 800 * size, dtype=np.uint8)
    given, wanted = kernel.integers(data, format, 300), reference.integers(data, format, 300)
    for one, other in zip((*given[0], given[2]), (*wanted[0], wanted[2]), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(given[1], wanted[1], rtol=1e-9)


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
    given = kernel.digests(data.view(np.uint8), 1 << 20)
    assert (given != kernel.digests((-data).view(np.uint8), 1 << 20)).all()


@pytest.mark.parametrize("item", [4, 8])
def test_distinct(item):
    data = np.random.default_rng(8).integers(0, 40, 5000).astype(f"<u{item}").view(np.uint8)
    np.testing.assert_array_equal(np.sort(kernel.distinct(data, item, 50)), reference.distinct(data, item, 50))
    assert kernel.distinct(data, item, 20).size == reference.distinct(data, item, 20).size == 21


def test_sorted():
    found = np.random.default_rng(9).integers(0, 1 << 24, 9000).astype(np.uint32) & 0xFF00FF
    np.testing.assert_array_equal(kernel.sorted(found), reference.sorted(found))
    np.testing.assert_array_equal(kernel.sorted(found[:7]), np.sort(found[:7])[None])
    assert kernel.sorted(found[:0]).size == 0


def test_tally():
    found = np.array([3, 3, 9, 500], dtype=np.uint32)
    given, wanted = np.zeros(10, dtype=np.uint64), np.zeros(10, dtype=np.uint64)
    kernel.tally(found, given)
    reference.tally(found, wanted)
    assert given.tolist() == wanted.tolist() == [0, 0, 0, 2, 0, 0, 0, 0, 0, 1]


SCRIPT = """
import json, numpy as np
from assay.weights.kernel import kernel, name
x = (np.random.default_rng(1).standard_normal((9, 1111)) * 0.02).astype("<f4")
out = [name()]
for format, data in ((0, (x.view("<u4") >> 16).astype("<u2")), (1, x.astype("<f2")), (2, x), (3, x.astype("<f8"))):
    raw = data.view(np.uint8).reshape(-1)
    (patterns, counts), tiles, columns, _ = kernel.rows(raw, format, 9, 1111, 4, True, True)
    out += [patterns.tolist(), counts.tolist(), tiles.tolist(), columns.sum(axis=0).tolist()]
print(json.dumps(out))
"""


def test_builds_for_other_processors_agree():
    found = {}
    for isa in ("baseline", "avx2", "avx512"):
        environment = {**os.environ, "ASSAY_ISA": isa, "PYTHONPATH": os.pathsep.join(sys.path)}
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
        )
        name, *rest = json.loads(run.stdout)
        found[name] = rest
    assert "baseline" in found
    for name, rest in found.items():
        for given, wanted in zip(rest, found["baseline"], strict=True):
            np.testing.assert_allclose(given, wanted, rtol=2e-5, atol=1e-12, err_msg=name)
        assert rest[0] == found["baseline"][0]
