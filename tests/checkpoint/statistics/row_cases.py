"""Checks the row-wise pass of the build of the kernel in use against the numpy reference, over many kinds of data."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from assay.checkpoint.statistics import reference
from assay.checkpoint.statistics.dtypes import DTYPES, values
from assay.checkpoint.statistics.kernel import kernel
from assay.checkpoint.statistics.layout import ROW_FIELDS

Bytes = NDArray[np.uint8]

NAMES = tuple(name for name, dtype in DTYPES.items() if dtype.parts == 1 and (dtype.real or dtype.bytes == 1))
SHAPES = ((1, 1), (2, 2), (3, 128), (5, 300), (2, 4097), (70, 3), (1, 9000), (131, 257), (3, 8256))
NONFINITE = {
    "bfloat16": (0x7FC0, 0x7F80, 0xFF80),
    "float16": (0x7E00, 0x7C00, 0xFC00),
    "float32": (0x7FC00000, 0x7F800000, 0xFF800000),
    "float64": (0x7FF8 << 48, 0x7FF0 << 48, 0xFFF0 << 48),
    "float8_e4m3fn": (0x7F, 0xFF, 0x7F),
    "float8_e5m2": (0x7E, 0x7C, 0xFC),
    "float8_e4m3fnuz": (0x80, 0x80, 0x80),
    "float8_e5m2fnuz": (0x80, 0x80, 0x80),
}


def patterns(name: str, numbers: NDArray[np.float64]) -> NDArray[np.uint64]:
    """The patterns of the numbers, rounded to a dtype by any rule."""
    size = DTYPES[name].bytes
    with np.errstate(all="ignore"):
        if name in ("float16", "float32", "float64"):
            return numbers.astype(name).view(f"<u{size}").astype(np.uint64)
        if name == "bfloat16":
            return (numbers.astype("<f4").view("<u4") >> 16).astype(np.uint64)
    table = values(name)
    order = np.argsort(np.where(np.isfinite(table), table, np.inf), kind="stable")
    usable = order[: int(np.isfinite(table).sum())]
    largest = float(table[usable[-1]])
    near = np.searchsorted(table[usable], np.clip(numbers, -largest, largest))
    return usable[np.minimum(near, usable.size - 1)].astype(np.uint64)


def cases(name: str, rows: int, cols: int) -> Iterator[tuple[str, NDArray[np.uint64]]]:
    """Patterns of several kinds."""
    generator = np.random.default_rng(rows * cols)
    unit = 30.0 if not DTYPES[name].real else 0.25
    normal = generator.standard_normal((rows, cols)) * unit
    yield "normal", patterns(name, normal)
    size = DTYPES[name].bytes
    random = np.frombuffer(generator.bytes(rows * cols * size), f"<u{size}")
    yield "random bits", random.reshape(rows, cols).astype(np.uint64)
    yield "constant", patterns(name, np.full((rows, cols), unit))
    yield "sparse", patterns(name, np.where(generator.random((rows, cols)) < 0.9, 0.0, normal))
    dead = normal.copy()
    dead[::3], dead[:, 1::2] = 0.0, 0.0
    yield "dead rows and columns", patterns(name, dead)
    if name in NONFINITE:
        broken = patterns(name, dead)
        broken.reshape(-1)[:: max(1, cols // 3)] = NONFINITE[name][0]
        broken[-1, : cols // 2] = NONFINITE[name][1]
        broken[0] = NONFINITE[name][2]
        yield "not finite", broken
    exponents = {"bfloat16": 36, "float32": 36, "float64": 300}.get(name)
    if exponents:
        yield "tiny", patterns(name, dead * 10.0**-exponents)
        yield "huge", patterns(name, dead * 10.0**exponents)
        yield "rows of all sizes", patterns(name, dead * 10.0 ** generator.integers(-exponents, exponents, (rows, 1)))
        yield (
            "columns of all sizes",
            patterns(name, dead * 10.0 ** generator.integers(-exponents, exponents, (1, cols))),
        )
        small = np.full((rows, cols), 1e-11 if name != "float64" else 1e-100)
        small[:, ::2] *= 1e-12 if name != "float64" else 1e-75
        yield "columns whose squares underflow", patterns(name, small)
        yield (
            "values of all sizes",
            patterns(name, dead * 10.0 ** generator.integers(-exponents, exponents, (rows, cols))),
        )


def check(name: str) -> None:
    """Assert that all cases of a dtype agree."""
    dtype = DTYPES[name]
    for rows, cols in SHAPES:
        for kind, raw in cases(name, rows, cols):
            data = raw.astype(f"<u{dtype.bytes}").view(np.uint8).reshape(-1)
            tile = 1 + rows // 3
            arguments = (data, dtype.native, rows, cols, tile, True)
            with np.errstate(all="ignore"):
                actual, expected = kernel.rows(*arguments), reference.rows(*arguments)
            where = f"{name} {rows}x{cols} {kind}"
            for one, other in zip((*actual[0], actual[3]), (*expected[0], expected[3]), strict=True):
                np.testing.assert_array_equal(one, other, err_msg=where)
            _check_records(actual[1], expected[1], where)
            sums, truth = (part[2][0] + part[2][1] for part in (actual, expected))
            np.testing.assert_array_equal(sums == 0, truth == 0, err_msg=where)
            np.testing.assert_allclose(sums, truth, rtol=2e-5, err_msg=where)
            np.testing.assert_allclose(kernel.rows(*arguments[:-1], False)[1], actual[1], rtol=1e-12, err_msg=where)


def _check_records(actual: NDArray[np.float64], expected: NDArray[np.float64], where: str) -> None:
    for index, field in enumerate(ROW_FIELDS):
        value, true = actual[:, index], expected[:, index]
        if field == "dead_rows":
            np.testing.assert_array_equal(value, true, err_msg=where)
            continue
        # Rounding errors are differences of nearly equal numbers, so they have fewer significant digits.
        part, floor = (2e-4, 1e-11 * expected[:, 0]) if field.startswith("int") else (2e-5, 0.0)
        with np.errstate(invalid="ignore"):
            close = (np.abs(value - true) <= part * np.abs(true) + floor) | (value == true)
        assert close.all(), f"{where}: {field} {value[~close]} instead of {true[~close]}"


if __name__ == "__main__":
    for each in sys.argv[1:] or NAMES:
        check(each)
