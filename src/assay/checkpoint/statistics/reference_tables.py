"""The kernel functions that finish what the passes counted, in numpy: tables of values, sums over tiles, entropy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.checkpoint.statistics.distribution import histogram_edges
from assay.checkpoint.statistics.dtypes import FLOAT32, FLOAT64, INT32, INT64, UINT32, UINT64
from assay.checkpoint.statistics.layout import BINS, BITS, CAST_FIELDS, COLUMN_FIELDS, ROW_FIELDS, SUM_FIELDS

Counts = NDArray[np.uint64]
Doubles = NDArray[np.float64]

NUMBERS = {FLOAT32: "<f4", FLOAT64: "<f8", INT32: "<i4", UINT32: "<u4", INT64: "<i8", UINT64: "<u8"}
"""The numpy dtype of each format of 32 or 64 bits."""
_BFLOAT16_OVERFLOW = float.fromhex("0x1.ffp127")
"""This and larger magnitudes round to infinity in bfloat16: halfway between its largest value and 2^128."""


def summary(
    values: Doubles, counts: Counts, ranks: Doubles, edges: Doubles, removed: Doubles, near_share: float
) -> Doubles:
    """The statistics of values in ascending order and their counts, as one row.

    The row has `SUM_FIELDS`, the values at `ranks`, the counts between `edges`, the energy that remains after each
    number of smallest values in `removed` is removed, and the errors of `CAST_FIELDS`.
    """
    times = counts.astype(np.float64)
    n, size, squares = float(times.sum()), np.abs(values), values * values
    peak = float(size.max())
    unit = 1.0 if peak * n < 2.0**1000 else n  # even the sum of two huge values may overflow
    mean = float((times * (values / unit)).sum()) / (n / unit)
    mean += float((times * ((values - mean) / unit)).sum()) / (n / unit)
    d = values - mean
    weighted = times * d * d
    m2 = float(weighted.sum())
    parts = values / peak if peak else values  # their squares cannot overflow
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


def table(
    raws: NDArray[Any],
    counts: Counts,
    weights: Counts,
    numbers: Doubles,
    format: int,
    order: int,
    bits: int,
    tiny: float,
    quantiles: Doubles,
    shares: Doubles,
    near_share: float,
) -> Doubles:
    """The statistics of values in ascending order of their bit patterns, as one row.

    The row has `TABLE_FIELDS`, `SUM_FIELDS`, the values at `quantiles`, the bins of a histogram, the energy that
    remains when each of `shares` of the smallest values is removed, and the errors of `CAST_FIELDS`. `counts` is how
    often each value is stored, `weights` how often it counts. 16-bit raws are indices into `numbers`.
    """
    is_patterns = raws.dtype == np.uint16
    with np.errstate(invalid="ignore"):  # a signalling NaN is valid data
        values = numbers[raws] if is_patterns else _of_format(raws, format)
    parts = [counts] if is_patterns else [_halfword_counts(raws, counts, shift) for shift in range(0, bits, 16)]
    coded = sum(float(part.sum()) * entropy(part) for part in parts)
    finite = np.isfinite(values)
    nan, times = float(weights[np.isnan(values)].sum()), weights[finite]
    at = np.argsort(values[finite] + 0.0, kind="stable")
    values, times, others = (values[finite] + 0.0)[at], times[at], np.unique(values[~finite])
    distinct = np.unique(values).size + others.size
    denormal = (values != 0) & (np.abs(values) < tiny)
    facts = [nan, float(weights[~finite].sum()) - nan, distinct, float(times[denormal].sum()), coded]
    if not values.size:
        rest = 3 + len(SUM_FIELDS) + quantiles.size + BINS + shares.size + len(CAST_FIELDS)
        return np.concatenate((facts, np.zeros(rest)))[None]
    n, low, high = int(times.sum()), float(values[0]), float(values[-1])
    positions = quantiles * float(n - 1)
    below = np.minimum(np.floor(positions), float(n - 1))
    needed = np.unique(np.concatenate((below, below[positions > below] + 1)))
    edges = np.array(histogram_edges(low, high))
    record = summary(values, times, needed, edges, np.floor(shares * float(n)), near_share)[0]
    lengths = np.cumsum([len(SUM_FIELDS), needed.size, edges.size + 1])
    sums, ranked, bins, rest_of_record = np.split(record, lengths)
    value_at = ranked[np.searchsorted(needed, below)]
    value_after = ranked[np.minimum(np.searchsorted(needed, below + 1), needed.size - 1)]
    between = np.where(positions > below, value_at + (positions - below) * (value_after - value_at), value_at)
    all_bins = np.concatenate((bins, np.zeros(BINS - bins.size)))
    return np.concatenate((facts, [entropy(bins), low, high], sums, between, all_bins, rest_of_record))[None]


def row_sums(records: Doubles, columns: Doubles) -> Doubles:
    """The sums of `ROW_FIELDS` over all tiles, and `COLUMN_FIELDS` of the norms of the columns, as one row."""
    sums = [math.fsum(field) if np.isfinite(field).all() else math.inf for field in records[:, : len(ROW_FIELDS)].T]
    low, high = ROW_FIELDS.index("norm_min"), ROW_FIELDS.index("norm_max")
    sums[low], sums[high] = float(records[:, low].min()), float(records[:, high].max())
    if not columns.shape[1]:
        return np.array([[*sums, *[0.0] * len(COLUMN_FIELDS)]])
    norms = np.sqrt(columns[0] + columns[1])
    facts = (norms.min(), norms.max(), norms.mean(), norms.std(), norms.size - np.count_nonzero(norms))
    return np.array([[*sums, *map(float, facts)]])


def entropy(counts: NDArray[Any]) -> float:
    """Bits per item of an order-0 code of items with these counts; in the kernel's order, for the same last bit."""
    total = int(counts.sum())
    distinct, places = np.unique(counts.astype(np.int64), return_inverse=True)
    terms = np.array([count * math.log2(count) if count else 0.0 for count in distinct.tolist()])[places]
    lanes = np.concatenate((terms, np.zeros(-terms.size % 4))).reshape(-1, 4)
    first, second, third, fourth = lanes.cumsum(axis=0)[-1].tolist() if total else (0.0,) * 4
    bits = total * math.log2(total) - ((first + second) + (third + fourth)) if total else 0.0
    return max(0.0, bits) / total if total else 0.0


def rounded_float(x: Doubles, mantissa_bits: int, least_exponent: int) -> Doubles:
    """x rounded (ties to even) to a float with these mantissa bits and this smallest normal exponent."""
    exponent = np.maximum(np.frexp(x)[1] - 1, least_exponent) - mantissa_bits
    return np.asarray(np.ldexp(np.rint(np.ldexp(x, -exponent)), exponent), dtype=np.float64)


def cast_errors(x: Doubles, peak: float) -> list[Doubles]:
    """The squared rounding error of each element of x, in the order of `CAST_FIELDS`: int2…int8, fp8, bf16.

    Last, 1 for each element that rounds to infinity in bf16, and whose error is 0.
    """
    errors = []
    for bits in BITS:
        unit = peak / (2 ** (bits - 1) - 1)
        errors.append((x - np.rint(x / unit) * unit) ** 2 if unit else np.zeros_like(x))
    for largest, mantissa, least in ((448.0, 3, -6), (57344.0, 2, -14)):
        scaled = x / peak * largest if peak else x
        errors.append(((scaled - rounded_float(scaled, mantissa, least)) * (peak / largest)) ** 2)
    overflows = np.abs(x) >= _BFLOAT16_OVERFLOW
    errors.append((x - np.where(overflows, x, rounded_float(x, 7, -126))) ** 2)
    errors.append(overflows.astype(np.float64))
    return errors


def _of_format(raws: Counts, format: int) -> Doubles:
    number = np.dtype(NUMBERS[format])
    return np.asarray(raws.astype(f"<u{number.itemsize}").view(number), dtype=np.float64)


def _halfword_counts(raws: Counts, counts: Counts, shift: int) -> Doubles:
    halfwords = (raws >> np.uint64(shift) & np.uint64(0xFFFF)).astype(np.int64)
    return np.asarray(np.bincount(halfwords, counts), dtype=np.float64)


def _kept(squares: Doubles, times: Doubles, removed: Doubles) -> Doubles:
    """The energy that remains after each number of smallest values in `removed` is removed."""
    order = np.argsort(squares, kind="stable")[::-1]
    squares, times = squares[order], times[order]
    remaining = times.sum() - np.concatenate(([0.0], np.cumsum(times)))
    above = np.concatenate(([0.0], np.cumsum(squares * times)))
    indices = np.searchsorted(-remaining[1:], -removed, side="left")
    return np.asarray(above[indices] + (remaining[indices] - removed) * squares[indices])
