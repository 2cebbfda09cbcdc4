"""The kernel's functions in numpy: the oracle of its tests, and what runs where it could not be built."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.checkpoint.statistics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, UINT32, UINT64
from assay.checkpoint.statistics.layout import BITS, ERROR_FIELDS, GROUP, ROW_FIELDS, WIDE_FIELDS

Bytes = NDArray[np.uint8]
Counts = NDArray[np.uint64]
Doubles = NDArray[np.float64]
PatternCounts = tuple[NDArray[np.uint16], Counts]
"""Patterns and how often each occurs, as rows."""

_RAW = {BFLOAT16: "<u2", FLOAT16: "<u2", FLOAT32: "<u4", FLOAT64: "<u8"}
_NUMBER = {FLOAT32: "<f4", FLOAT64: "<f8", INT32: "<i4", UINT32: "<u4", INT64: "<i8", UINT64: "<u8"}
_LANES = 256
_LARGEST = sys.float_info.max


def isa() -> str:
    """The name of this implementation."""
    return "numpy"


def count16(data: Bytes) -> Counts:
    """How often each 16-bit pattern occurs, as one row."""
    return np.bincount(data.view("<u2"), minlength=65536).astype(np.uint64)[None]


def count8(data: Bytes) -> Counts:
    """How often each byte occurs, as one row."""
    return np.bincount(data, minlength=256).astype(np.uint64)[None]


def digests(data: Bytes, tile_bytes: int) -> Counts:
    """A 128-bit digest of every tile of bytes."""
    tiles = [_digest(data[start : start + tile_bytes]) for start in range(0, data.size, tile_bytes)]
    return np.array(tiles, dtype=np.uint64).reshape(-1, 2)


def rows(
    data: Bytes, format: int, rows: int, cols: int, tile_rows: int, columns: bool, counting: bool
) -> tuple[PatternCounts, Doubles, Doubles, Counts]:
    """Top halfwords and how often they occur, a record a tile of rows, the columns' energies as pairs, digests."""
    raw = data.view(_RAW[format])
    wide = format in _NUMBER
    numbers = _numbers(raw, format)
    finite = np.where(np.isfinite(numbers), numbers, 0.0).reshape(rows, cols)
    tiles = []
    pairs = np.zeros((2, cols if columns else 0))
    for start in range(0, rows, tile_rows):
        part = finite[start : start + tile_rows]
        record = _row_record(part)
        if wide:
            record += _moments(numbers.reshape(rows, cols)[start : start + tile_rows].ravel())
        tiles.append(record)
        if columns:
            add_pair(pairs, (part * part).sum(axis=0))
    top = (raw >> (8 * raw.itemsize - 16)).astype(np.int64)
    found = _occurring(top if wide or counting else top[:0])
    width = len(WIDE_FIELDS if wide else ROW_FIELDS)
    return found, np.array(tiles).reshape(-1, width), pairs, digests(data, tile_rows * cols * raw.itemsize)


def integers(data: Bytes, format: int, tile_elements: int) -> tuple[PatternCounts, Doubles, Counts]:
    """Top halfwords and how often they occur, a record of moments a tile of integers, digests."""
    numbers = data.view(_NUMBER[format])
    top = numbers.view(f"<u{numbers.itemsize}") >> (8 * numbers.itemsize - 16)
    blank = [0.0] * len(ROW_FIELDS)
    starts = range(0, numbers.size, tile_elements)
    tiles = [blank + _moments(numbers[start : start + tile_elements].astype(np.float64)) for start in starts]
    records = np.array(tiles).reshape(-1, len(WIDE_FIELDS))
    return _occurring(top.astype(np.int64)), records, digests(data, tile_elements * numbers.itemsize)


def distinct(data: Bytes, item: int, limit: int) -> tuple[Counts, Counts]:
    """The distinct values of 4- or 8-byte items, and their counts; more than `limit` means that there are more."""
    raw = data.view(f"<u{item}")
    found, counts = np.unique(raw[: 4 * limit], return_counts=True)
    if found.size <= limit:
        found, counts = np.unique(raw, return_counts=True)
    return found[: limit + 1].astype(np.uint64)[None], counts[: limit + 1].astype(np.uint64)[None]


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
    """The halfwords behind listed prefixes, how many lie in the edges' spans, counts of low halfwords, errors a tile.

    A prefix is a row of its bits, its list or 0, its first edge and how many there are; an edge one of the least
    halfword and how many from it.
    """
    item = np.dtype(_NUMBER[format]).itemsize
    raw = data.view(f"<u{item}").astype(np.uint64)
    prefix = raw >> np.uint64(shift + 16)
    at = np.searchsorted(prefixes[:, 0], prefix)
    hit = at < len(prefixes)
    hit[hit] = prefixes[at[hit], 0] == prefix[hit]
    at, halfword = at[hit], (raw[hit] >> np.uint64(shift)) & np.uint64(0xFFFF)
    lists = prefixes[at, 1]
    found = (lists << np.uint64(16) | halfword)[lists > 0].astype(np.uint32)[None]
    inside = np.zeros((1, len(edges)), dtype=np.uint64)
    for place, (_, _, first, count) in enumerate(prefixes.tolist()):
        for edge in range(first, first + count):
            inside[0, edge] = (halfword[at == place] - edges[edge, 0] < edges[edge, 1]).sum()
    low = np.zeros((item // 2 - 1, 65536 if planes or tile_elements else 0), dtype=np.uint32)
    for plane in range(low.shape[0] if low.size else 0):
        halfwords = (raw >> np.uint64(16 * plane)) & np.uint64(0xFFFF)
        low[plane] = np.bincount(halfwords.astype(np.int64), minlength=65536)
    tiles: list[list[float]] = []
    if tile_elements:
        numbers = _numbers(data.view(f"<u{item}"), format)
        starts = range(0, numbers.size, tile_elements)
        tiles = [_error_record(numbers[start : start + tile_elements], peak, above) for start in starts]
    return found, inside, low, np.array(tiles).reshape(-1, len(ERROR_FIELDS))


def sorted(found: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """A refining pass's list in rising order, as one row."""
    return np.sort(found)[None]


def tally(found: NDArray[np.uint32], counts: Counts) -> None:
    """Adds a refining pass's list to dense counts."""
    np.add.at(counts, found[found < counts.size], np.uint64(1))


def magnitudes(keys: NDArray[np.uint32], counts: Counts, item: int, wanted: Counts) -> tuple[Counts, Doubles]:
    """For each wanted rank behind a prefix the pattern and the rank among equals; and the energy from the rank on.

    Wanted are rows of prefix, list of the positive, list of the negative, rank.
    """
    often = counts if counts.size else np.ones(keys.size, dtype=np.uint64)
    found, energies = np.zeros((len(wanted), 2), dtype=np.uint64), np.zeros((1, len(wanted)))
    for place, (prefix, plus, minus, rank) in enumerate(wanted.tolist()):
        here = np.isin(keys >> np.uint32(16), [one for one in (plus, minus) if one])
        halves = np.bincount((keys[here] & np.uint32(0xFFFF)).astype(np.int64), often[here], 65536).astype(np.int64)
        after = np.cumsum(halves)
        half = int(np.searchsorted(after, rank, side="right"))
        found[place] = prefix << 16 | half, rank - int(after[half] - halves[half])
        patterns = (np.uint64(prefix << 16) + np.arange(65536, dtype=np.uint64)).astype(f"<u{item}")
        kept = np.clip(after - rank, 0, halves)
        used = kept > 0
        energies[0, place] = (patterns[used].view(f"<f{item}").astype(np.float64) ** 2 * kept[used]).sum()
    return found, energies


def summary(
    values: Doubles, counts: Counts, ranks: Doubles, edges: Doubles, removed: Doubles, near_share: float
) -> Doubles:
    """The statistics of values in rising order and their counts, as one row.

    `SUM_FIELDS`, the values of the ranks, how many lie between the edges, the energy that is left when so many of the
    smallest are removed, and the errors of `CAST_FIELDS`.
    """
    times = counts.astype(np.float64)
    n, size, squares = float(times.sum()), np.abs(values), values * values
    peak = float(size.max())
    unit = 1.0 if peak * n < 2.0**1000 else n  # of huge values even the sum of two may be too large
    mean = float((times * (values / unit)).sum()) / (n / unit)
    mean += float((times * ((values - mean) / unit)).sum()) / (n / unit)
    d = values - mean
    weighted = times * d * d
    m2 = float(weighted.sum())
    parts = values / peak if peak else values  # no square of them is too large
    near = near_share * peak * float(np.sqrt((times * parts * parts).sum() / n))
    sums = [
        *(n, mean, m2, float((weighted * d).sum()), float((weighted * d * d).sum())),
        *(float((times * size).sum()), float((times * squares).sum())),
        *(float(times[values == 0].sum()), float(times[size <= near].sum()), near, peak),
    ]
    at = np.minimum(np.searchsorted(np.cumsum(times), ranks, side="right"), values.size - 1)
    bins = np.bincount(np.searchsorted(edges, values, side="right"), times, edges.size + 1)
    errors = [float((times * error).sum()) for error in cast_errors(values, peak)]
    return np.concatenate((sums, values[at], bins, _kept(squares, times, removed), errors))[None]


def entropy(counts: NDArray[Any]) -> float:
    """Bits a symbol of an order-0 code."""
    used = counts[counts > 0].astype(np.float64)
    share = used / used.sum()
    return abs(float(-(share * np.log2(share)).sum()))


def add_pair(pairs: Doubles, value: Doubles) -> None:
    """Adds to sums held as pairs of doubles, so that the order of adding does not show."""
    high, low = pairs
    total = high + value
    back = total - high
    low += (high - (total - back)) + (value - back)
    high[:] = total


def rounded_float(x: Doubles, mantissa_bits: int, least_exponent: int) -> Doubles:
    """x rounded to a float of so many mantissa bits and so small a least normal exponent; ties to even."""
    exponent = np.maximum(np.frexp(x)[1] - 1, least_exponent) - mantissa_bits
    return np.asarray(np.ldexp(np.rint(np.ldexp(x, -exponent)), exponent), dtype=np.float64)


def cast_errors(x: Doubles, peak: float) -> list[Doubles]:
    """Squared errors of x, element by element, in the order of `ERROR_FIELDS`: integers of 2…8 bits, fp8, bf16."""
    errors = []
    for bits in BITS:
        unit = peak / (2 ** (bits - 1) - 1)
        errors.append((x - np.rint(x / unit) * unit) ** 2 if unit else np.zeros_like(x))
    for largest, mantissa, least in ((448.0, 3, -6), (57344.0, 2, -14)):
        scaled = x / peak * largest if peak else x
        errors.append(((scaled - rounded_float(scaled, mantissa, least)) * (peak / largest)) ** 2)
    errors.append((x - rounded_float(x, 7, -126)) ** 2)
    return errors


def _occurring(patterns: NDArray[np.int64]) -> PatternCounts:
    counts = np.bincount(patterns, minlength=65536)
    used = np.flatnonzero(counts)
    return used.astype(np.uint16)[None], counts[used].astype(np.uint64)[None]


def _numbers(raw: NDArray[Any], format: int) -> Doubles:
    with np.errstate(invalid="ignore"):  # a signalling NaN is data here
        if format == BFLOAT16:
            return np.asarray((raw.astype(np.uint32) << 16).view(np.float32), dtype=np.float64)
        return raw.view("<f2" if format == FLOAT16 else _NUMBER[format]).astype(np.float64)


def _row_record(x: Doubles) -> list[float]:
    pad = -x.shape[1] % GROUP
    padded = np.pad(x, ((0, 0), (0, pad))) if pad else x
    groups = padded.reshape(x.shape[0], -1, GROUP)
    peaks = np.abs(groups).max(axis=2, keepdims=True)
    row_peaks = peaks.max(axis=1, keepdims=True)
    squares = groups * groups
    fours = np.sort(squares.reshape(-1, 4), axis=1)
    eights = np.sort(squares.reshape(-1, 8), axis=1)
    energy = squares.sum(axis=(1, 2))
    norms = np.sqrt(energy)
    return [
        float(energy.sum()),
        *(_integer_error(groups, scale, levels) for scale in (row_peaks, peaks) for levels in (127, 7)),
        float(fours[:, 3].sum()),
        float(fours[:, 2:].sum()),
        float(eights[:, 4:].sum()),
        float(norms.min(initial=_LARGEST)),
        float(norms.max(initial=0.0)),
        float(norms.sum()),
        float((energy == 0).sum()),
    ]


def _integer_error(groups: Doubles, peaks: Doubles, levels: int) -> float:
    unit = peaks / levels
    steps = np.divide(groups, unit, out=np.zeros_like(groups), where=unit > 0)
    return float((((steps - np.rint(steps)) * unit) ** 2).sum())


def _moments(x: Doubles) -> list[float]:
    infinite = float(np.isinf(x).sum())
    x = x[np.isfinite(x)]
    if not x.size:
        return [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, _LARGEST, -_LARGEST, 0.0, infinite]
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


def _kept(squares: Doubles, times: Doubles, removed: Doubles) -> Doubles:
    order = np.argsort(squares, kind="stable")[::-1]
    squares, times = squares[order], times[order]
    left = times.sum() - np.concatenate(([0.0], np.cumsum(times)))
    above = np.concatenate(([0.0], np.cumsum(squares * times)))
    places = np.searchsorted(-left[1:], -removed, side="left")
    return np.asarray(above[places] + (left[places] - removed) * squares[places])


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
