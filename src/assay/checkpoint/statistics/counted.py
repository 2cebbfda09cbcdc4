"""Statistics of tensors whose distinct values were all counted: 8- and 16-bit types, and others with few values."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from assay.checkpoint.statistics.chunks import ChunkPlan
from assay.checkpoint.statistics.distribution import (
    NEAR_ZERO,
    Doubles,
    Moments,
    coded_bytes,
    distribution,
    histogram_edges,
    moment_statistics,
    quantile_ranks,
    quantiles_from,
    ranks_needed,
)
from assay.checkpoint.statistics.dtypes import COUNTED, DType, denormal_patterns, values
from assay.checkpoint.statistics.finalize import blank, content_of, pruning, roundings, row_statistics, row_sums
from assay.checkpoint.statistics.kernel import kernel
from assay.checkpoint.statistics.layout import CAST_FIELDS, PRUNE_SHARES, SUM_FIELDS
from assay.checkpoint.statistics.partials import Counts, Partial, grouped
from assay.document.weights import TensorStatistics

EXACT_INTEGERS = 1 << 53
"""Larger integers are not all representable in float64."""


class ValueCounts(Struct, frozen=True):
    """The distinct values of a tensor in ascending order, non-finite ones at the ends, and the count of each."""

    dtype: DType
    raws: NDArray[Any]
    numbers: Doubles
    counts: Counts


def table_of(plan: ChunkPlan, partial: Partial) -> ValueCounts | None:
    """Every distinct value with its count; None if there are too many, or some do not fit in float64."""
    dtype = plan.dtype
    if dtype.family == COUNTED:
        raws, counts = _ascending(partial.patterns, partial.counts, dtype)
        return ValueCounts(dtype, raws, values(dtype.name)[raws], counts)
    if partial.distinct is None:
        return None
    raws, counts = _ascending(*partial.distinct, dtype)
    exact = raws.astype(f"<u{dtype.bytes}").view(dtype.numpy)
    if not dtype.real and exact.size and max(-int(exact[0]), int(exact[-1])) > EXACT_INTEGERS:
        return None
    with np.errstate(invalid="ignore"):  # a signalling NaN is valid data
        return ValueCounts(dtype, raws, exact.astype(np.float64), counts)


def statistics(plan: ChunkPlan, partial: Partial, table: ValueCounts, target_db: float) -> TensorStatistics:
    """All statistics of a tensor from its table of values."""
    fields: dict[str, Any] = {"content": content_of(partial.tiles), "entropy_bytes": coded_bytes(_parts(table))}
    finite = np.isfinite(table.numbers)
    if finite.all():
        finite_values, times, nonfinite = table.numbers + 0.0, table.counts, (0, 0, 0)
    else:
        finite_values, times = table.numbers[finite] + 0.0, table.counts[finite]
        nonfinite = _count_nonfinite(table.numbers[~finite], table.counts[~finite])
    fields["nan"], fields["inf"], distinct = nonfinite
    if finite_values.size:
        distinct += 1 + int(np.count_nonzero(finite_values[1:] != finite_values[:-1]))
    fields["distinct"] = distinct
    if plan.dtype.real:
        fields["denormals"] = int(table.counts[_denormal(table)].sum())
    fields |= _values(plan, partial, finite_values, times, target_db) if finite_values.size else {"zeros": 0}
    return replace(blank(plan.weight, note=plan.note), **fields)


def _parts(table: ValueCounts) -> Iterator[Counts]:
    """The counts of the patterns of each 16-bit part, or of whole values of narrower types."""
    if table.dtype.family == COUNTED:
        yield table.counts
        return
    for part in range(table.dtype.bytes // 2):
        yield grouped(table.raws >> np.uint64(16 * part) & np.uint64(0xFFFF), table.counts)[1]


def _ascending(raws: NDArray[Any], counts: Counts, dtype: DType) -> tuple[NDArray[Any], Counts]:
    """Sorted patterns and their counts, reordered by the values that the patterns stand for."""
    if not dtype.real and dtype.numpy[1] == "u":
        return raws, counts
    negative = int(np.searchsorted(raws, raws.dtype.type(1 << (8 * dtype.bytes - 1))))
    step = -1 if dtype.real else 1
    order = [(part[negative:][::step], part[:negative]) for part in (raws, counts)]
    return np.concatenate(order[0]), np.concatenate(order[1])


def _count_nonfinite(numbers: Doubles, counts: Counts) -> tuple[int, int, int]:
    """The counts of NaN and of infinite values, and the number of distinct ones."""
    nan = np.isnan(numbers)
    infinities = {float(number) for number in numbers[~nan]}
    return int(counts[nan].sum()), int(counts[~nan].sum()), len(infinities) + int(nan.any())


def _denormal(table: ValueCounts) -> NDArray[np.bool_]:
    if table.dtype.family == COUNTED:
        return np.asarray(denormal_patterns(table.dtype.name)[table.raws])
    tiny = float(np.finfo(table.dtype.numpy).tiny)
    return np.asarray((np.abs(table.numbers) < tiny) & (table.numbers != 0))


def _values(plan: ChunkPlan, partial: Partial, numbers: Doubles, times: Counts, target_db: float) -> dict[str, Any]:
    """The statistics of finite values in ascending order and their counts."""
    n = int(times.sum())
    low, high = float(numbers[0]), float(numbers[-1])
    ranks = quantile_ranks(n)
    needed, edges = ranks_needed(ranks), histogram_edges(low, high)
    removed = [int(share * n) for share in PRUNE_SHARES]
    arrays = (np.array(part, dtype=np.float64) for part in (needed, edges, removed))
    record = kernel.summary(numbers, times, *arrays, NEAR_ZERO)[0].tolist()
    lengths = (len(SUM_FIELDS), len(needed), len(edges) + 1, len(PRUNE_SHARES), len(CAST_FIELDS))
    firsts, ranked, bins, kept, casts = (
        record[end - size : end] for size, end in zip(lengths, accumulate(lengths), strict=True)
    )
    sums = dict(zip(SUM_FIELDS, firsts, strict=True))
    value_at = dict(zip(needed, ranked, strict=True))
    moments = Moments(n, *(sums[name] for name in ("mean", "m2", "m3", "m4")))
    energy = sums["energy"]
    fields: dict[str, Any] = {
        "min": low if plan.dtype.real else int(low),
        "max": high if plan.dtype.real else int(high),
        **moment_statistics(moments, sums["l1"], energy),
        "zeros": int(sums["zeros"]),
        "quantiles": quantiles_from(ranks, value_at),
        **distribution(low, high, bins),
    }
    if plan.dtype.real or plan.dtype.family == COUNTED:
        fields |= {"near_zeros": int(sums["near_zeros"]), "near_zero_below": sums["near_zero_below"]}
    if plan.dtype.real or plan.dtype.bytes == 1:
        rows = row_sums(partial.tiles)
        fields |= row_statistics(plan, partial, rows)
        if plan.dtype.real and math.isfinite(energy):
            fields["pruning"] = pruning(kept, energy)
            fields |= roundings(plan, rows, dict(zip(CAST_FIELDS, casts, strict=True)), energy, target_db)
    return fields
