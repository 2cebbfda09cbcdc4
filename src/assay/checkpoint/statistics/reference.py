"""The kernel functions in numpy: the reference for its tests, and the fallback if it was not built."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.checkpoint.statistics.dtypes import (
    BFLOAT16,
    DTYPES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    UINT8,
    values,
)
from assay.checkpoint.statistics.layout import (
    ERROR_FIELDS,
    GROUP,
    ROW_FIELDS,
    WIDE_FIELDS,
)
from assay.checkpoint.statistics.reference_tables import NUMBERS, cast_errors
from assay.checkpoint.statistics.reference_tables import entropy as entropy
from assay.checkpoint.statistics.reference_tables import row_sums as row_sums
from assay.checkpoint.statistics.reference_tables import table as table

Bytes = NDArray[np.uint8]
Counts = NDArray[np.uint64]
Doubles = NDArray[np.float64]
PatternCounts = tuple[NDArray[np.uint16], Counts]
"""Patterns and their counts, each as one row."""

_RAW = {BFLOAT16: "<u2", FLOAT16: "<u2", FLOAT32: "<u4", FLOAT64: "<u8"}
_BYTES = {dtype.native: dtype.name for dtype in DTYPES.values() if dtype.bytes == 1}
_LANES = 256
_MAX_DOUBLE = sys.float_info.max
_LEAST_DOUBLE = 5e-324


def isa() -> str:
    """The name of this implementation."""
    return "numpy"


def count16(data: Bytes) -> Counts:
    """The count of each 16-bit pattern, as one row."""
    return np.bincount(data.view("<u2"), minlength=65536).astype(np.uint64)[None]


def digests(data: Bytes, tile_bytes: int) -> Counts:
    """A 128-bit digest of every tile of bytes."""
    tiles = [_digest(data[start : start + tile_bytes]) for start in range(0, data.size, tile_bytes)]
    return np.array(tiles, dtype=np.uint64).reshape(-1, 2)


def rows(
    data: Bytes, format: int, rows: int, cols: int, tile_rows: int, columns: bool
) -> tuple[PatternCounts, Doubles, Doubles, Counts]:
    """The counts of bytes or top halfwords, one record per tile of rows, column energies as pairs, digests."""
    raw = data.view(_RAW.get(format, "u1"))
    wide = format in NUMBERS
    numbers = _numbers(raw, format)
    finite = np.where(np.isfinite(numbers), numbers, 0.0).reshape(rows, cols)
    tiles = []
    pairs = np.zeros((2, cols if columns else 0))
    for start in range(0, rows, tile_rows):
        part = finite[start : start + tile_rows]
        record = _row_record(part, rounded=format not in (INT8, UINT8))
        if wide:
            record += _moments(numbers.reshape(rows, cols)[start : start + tile_rows].ravel())
        tiles.append(record)
        if columns:
            # A square that underflows still shows that its column is not zero.
            add_pair(pairs, np.where(part, np.maximum(part * part, _LEAST_DOUBLE), 0.0).sum(axis=0))
    width = len(WIDE_FIELDS if wide else ROW_FIELDS)
    top = (raw >> max(0, 8 * raw.itemsize - 16)).astype(np.int64)
    return _occurring(top), np.array(tiles).reshape(-1, width), pairs, digests(data, tile_rows * cols * raw.itemsize)


def integers(data: Bytes, format: int, tile_elements: int) -> tuple[PatternCounts, Doubles, Counts]:
    """The counts of top halfwords, one record of moments per tile of integers, digests."""
    numbers = data.view(NUMBERS[format])
    top = numbers.view(f"<u{numbers.itemsize}") >> (8 * numbers.itemsize - 16)
    blank = [0.0] * len(ROW_FIELDS)
    starts = range(0, numbers.size, tile_elements)
    tiles = [blank + _moments(numbers[start : start + tile_elements].astype(np.float64)) for start in starts]
    records = np.array(tiles).reshape(-1, len(WIDE_FIELDS))
    return _occurring(top.astype(np.int64)), records, digests(data, tile_elements * numbers.itemsize)


def distinct(data: Bytes, item: int, limit: int) -> tuple[Counts, Counts]:
    """The distinct values of 4- or 8-byte items, ascending, and their counts; `limit + 1` if there are too many."""
    raw = data.view(f"<u{item}")
    values, counts = np.unique(raw[: 4 * limit], return_counts=True)
    if values.size <= limit:
        values, counts = np.unique(raw, return_counts=True)
    return values[: limit + 1].astype(np.uint64)[None], counts[: limit + 1].astype(np.uint64)[None]


def refine(
    data: Bytes,
    format: int,
    shift: int,
    slots: Bytes,
    prefixes: Counts,
    edges: Counts,
    planes: bool,
    tile_elements: int,
    peak: float,
    above: Doubles,
) -> tuple[NDArray[np.uint32], Counts, NDArray[np.uint32], Doubles]:
    """Matches of listed prefixes, counts in the spans of edges, counts of low halfwords, rounding errors per tile.

    `prefixes` and `edges` are those of a `Request`.
    """
    item = np.dtype(NUMBERS[format]).itemsize
    raw = data.view(f"<u{item}").astype(np.uint64)
    prefix = raw >> np.uint64(shift + 16)
    at = np.searchsorted(prefixes[:, 0], prefix)
    hit = at < len(prefixes)
    hit[hit] = prefixes[at[hit], 0] == prefix[hit]
    at, halfword = at[hit], (raw[hit] >> np.uint64(shift)) & np.uint64(0xFFFF)
    lists = prefixes[at, 1]
    matches = (lists << np.uint64(16) | halfword)[lists > 0].astype(np.uint32)[None]
    edge_counts = np.zeros((1, len(edges)), dtype=np.uint64)
    for index, (_, _, first, count) in enumerate(prefixes.tolist()):
        for edge in range(first, first + count):
            edge_counts[0, edge] = (halfword[at == index] - edges[edge, 0] < edges[edge, 1]).sum()
    low = np.zeros((item // 2 - 1, 65536 if planes or tile_elements else 0), dtype=np.uint32)
    for plane in range(low.shape[0] if low.size else 0):
        halfwords = (raw >> np.uint64(16 * plane)) & np.uint64(0xFFFF)
        low[plane] = np.bincount(halfwords.astype(np.int64), minlength=65536)
    tiles: list[list[float]] = []
    if tile_elements:
        numbers = _numbers(data.view(f"<u{item}"), format)
        starts = range(0, numbers.size, tile_elements)
        tiles = [_error_record(numbers[start : start + tile_elements], peak, above) for start in starts]
    return matches, edge_counts, low, np.array(tiles).reshape(-1, len(ERROR_FIELDS))


def sorted(matches: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The matches of a refining pass in ascending order, as one row."""
    return np.sort(matches)[None]


def tally(matches: NDArray[np.uint32], counts: Counts) -> None:
    """Add the matches of a refining pass to dense counts."""
    np.add.at(counts, matches[matches < counts.size], np.uint64(1))


def magnitudes(keys: NDArray[np.uint32], counts: Counts, item: int, queries: Counts) -> tuple[Counts, Doubles]:
    """Find magnitudes by their rank among the values with a prefix.

    Each row of `queries` has a prefix, the lists of its positive and negative values, and a rank. The result has one
    row per query: the prefix extended by the halfword of the magnitude, and the rank among equal ones; and the energy
    of all values from that rank on.
    """
    frequencies = counts if counts.size else np.ones(keys.size, dtype=np.uint64)
    answers, energies = np.zeros((len(queries), 2), dtype=np.uint64), np.zeros((1, len(queries)))
    for index, (prefix, plus, minus, rank) in enumerate(queries.tolist()):
        listed = np.isin(keys >> np.uint32(16), [one for one in (plus, minus) if one])
        halfwords = (keys[listed] & np.uint32(0xFFFF)).astype(np.int64)
        halves = np.bincount(halfwords, frequencies[listed], 65536).astype(np.int64)
        after = np.cumsum(halves)
        half = int(np.searchsorted(after, rank, side="right"))
        answers[index] = prefix << 16 | half, rank - int(after[half] - halves[half])
        patterns = (np.uint64(prefix << 16) + np.arange(65536, dtype=np.uint64)).astype(f"<u{item}")
        kept = np.clip(after - rank, 0, halves)
        used = kept > 0
        energies[0, index] = (patterns[used].view(f"<f{item}").astype(np.float64) ** 2 * kept[used]).sum()
    return answers, energies


def add_pair(pairs: Doubles, value: Doubles) -> None:
    """Add to sums held as pairs of doubles, so that the order of additions does not change the result."""
    high, low = pairs
    total = high + value
    back = total - high
    low += (high - (total - back)) + (value - back)
    high[:] = total


def _occurring(patterns: NDArray[np.int64]) -> PatternCounts:
    counts = np.bincount(patterns, minlength=65536)
    used = np.flatnonzero(counts)
    return used.astype(np.uint16)[None], counts[used].astype(np.uint64)[None]


def _numbers(raw: NDArray[Any], format: int) -> Doubles:
    if format in _BYTES:
        return np.asarray(values(_BYTES[format])[raw])
    with np.errstate(invalid="ignore"):  # a signalling NaN is valid data
        if format == BFLOAT16:
            return np.asarray((raw.astype(np.uint32) << 16).view(np.float32), dtype=np.float64)
        return raw.view("<f2" if format == FLOAT16 else NUMBERS[format]).astype(np.float64)


def _row_record(x: Doubles, rounded: bool) -> list[float]:
    pad = -x.shape[1] % GROUP
    padded = np.pad(x, ((0, 0), (0, pad))) if pad else x
    groups = padded.reshape(x.shape[0], -1, GROUP)
    row_peaks = np.abs(groups).max(axis=(1, 2), keepdims=True)
    # Rows are scaled by a power of two, so that no square of a row far from 1 overflows or underflows.
    exponents = np.frexp(row_peaks)[1]
    groups = np.ldexp(groups, -exponents)
    units, peaks = exponents[:, 0, 0], np.abs(groups).max(axis=2, keepdims=True)
    squares = groups * groups
    fours = np.sort(squares.reshape(len(x), -1, 4), axis=2)
    eights = np.sort(squares.reshape(len(x), -1, 8), axis=2)
    energy = squares.sum(axis=(1, 2))
    norms = np.ldexp(np.sqrt(energy), units)
    errors = [
        _integer_error(groups, scale, levels) if rounded else np.zeros(len(x))
        for scale in (peaks.max(axis=1, keepdims=True), peaks)
        for levels in (127, 7)
    ]
    kept = [part.sum(axis=(1, 2)) for part in (fours[:, :, 3:], fours[:, :, 2:], eights[:, :, 4:])]
    with np.errstate(over="ignore"):
        sums = [float(np.ldexp(part, 2 * units).sum()) for part in (energy, *errors, *kept)]
    return [
        *sums,
        float(norms.min(initial=_MAX_DOUBLE)),
        float(norms.max(initial=0.0)),
        float(norms.sum()),
        float((row_peaks == 0).sum()),
    ]


def _integer_error(groups: Doubles, peaks: Doubles, levels: int) -> Doubles:
    unit = peaks / levels
    steps = np.divide(groups, unit, out=np.zeros_like(groups), where=unit > 0)
    return np.asarray((((steps - np.rint(steps)) * unit) ** 2).sum(axis=(1, 2)))


def _moments(x: Doubles) -> list[float]:
    infinite = float(np.isinf(x).sum())
    x = x[np.isfinite(x)]
    if not x.size:
        return [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, _MAX_DOUBLE, -_MAX_DOUBLE, 0.0, infinite]
    mean = float(np.mean(x))
    mean += float(np.mean(x - mean))
    d = x - mean
    square = d * d
    sums = [float(square.sum()), float((square * d).sum()), float((square * square).sum()), float(np.abs(x).sum())]
    return [float(x.size), mean, *sums, float(x.min()), float(x.max()), float((x == 0).sum()), infinite]


def _error_record(x: Doubles, peak: float, above: Doubles) -> list[float]:
    x = x[np.isfinite(x)]
    errors = [float(error.sum()) for error in cast_errors(x, peak)]
    magnitude = np.abs(x)
    return [*errors, *(float((x[magnitude >= edge] ** 2).sum()) for edge in above)]


def _digest(data: Bytes) -> list[int]:
    padded = np.zeros(-(-data.size // (4 * _LANES)) * 4 * _LANES, dtype=np.uint8)
    padded[: data.size] = data
    state = np.zeros(_LANES, dtype=np.uint32)
    for step in padded.view("<u4").reshape(-1, _LANES):
        mixed = (state ^ step) * np.uint32(0x9E3779B1)
        state = mixed << np.uint32(13) | mixed >> np.uint32(19)
    keys = _keys(2 * _LANES).reshape(_LANES, 2)
    folded = (state.astype(np.uint64)[:, None] * keys).sum(axis=0, dtype=np.uint64)
    return [(int(part) + data.size) % 2**64 for part in folded]


def _keys(count: int) -> Counts:
    z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ z >> np.uint64(31))
