"""The statistics of tensors whose every value is counted: all of types with few patterns, others of few values."""

from __future__ import annotations

import math
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
    histogram_edges,
    moment_figures,
    quantile_ranks,
    quantiles_from,
    ranks_needed,
)
from assay.checkpoint.statistics.dtypes import COUNTED, DType, denormal_patterns, values
from assay.checkpoint.statistics.finalize import blank, content_of, pruning, roundings, row_figures, row_sums
from assay.checkpoint.statistics.kernel import kernel
from assay.checkpoint.statistics.layout import CAST_FIELDS, PRUNE_SHARES, SUM_FIELDS
from assay.checkpoint.statistics.partials import Counts, Partial
from assay.document.weights import Histogram, TensorStatistics

EXACT_INTEGERS = 1 << 53
"""Larger ones are not all numbers of float64."""


class ValueCounts(Struct, frozen=True):
    """The values of a tensor in rising order, what is not finite at the ends, and how often each occurs."""

    dtype: DType
    raws: NDArray[Any]
    numbers: Doubles
    counts: Counts


def table_of(plan: ChunkPlan, partial: Partial) -> ValueCounts | None:
    """Every value with its count; None where there are too many, or they are no numbers of float64."""
    dtype = plan.dtype
    if dtype.family == COUNTED:
        raws, counts = _rising(partial.patterns, partial.counts, dtype)
        return ValueCounts(dtype, raws, values(dtype.name)[raws], counts)
    if partial.distinct is None:
        return None
    raws, counts = _rising(*partial.distinct, dtype)
    exact = raws.astype(f"<u{dtype.bytes}").view(dtype.numpy)
    if not dtype.real and exact.size and max(-int(exact[0]), int(exact[-1])) > EXACT_INTEGERS:
        return None
    with np.errstate(invalid="ignore"):  # a signalling NaN is data here
        return ValueCounts(dtype, raws, exact.astype(np.float64), counts)


def statistics(plan: ChunkPlan, partial: Partial, table: ValueCounts, target_db: float) -> TensorStatistics:
    """Every statistic of a tensor from its table."""
    bits = max(0.0, kernel.entropy(table.counts))
    figures: dict[str, Any] = {
        "content": content_of(partial.tiles),
        "entropy_bits": bits,
        "entropy_bytes": math.ceil(bits * int(table.counts.sum()) / 8),
    }
    finite = np.isfinite(table.numbers)
    if finite.all():
        here, times, odd = table.numbers + 0.0, table.counts, (0, 0, 0)
    else:
        here, times = table.numbers[finite] + 0.0, table.counts[finite]
        odd = _odd_values(table.numbers[~finite], table.counts[~finite])
    figures["nan"], figures["inf"], others = odd
    figures["distinct"] = others + (1 + int(np.count_nonzero(here[1:] != here[:-1])) if here.size else 0)
    if plan.dtype.real:
        figures["denormals"] = int(table.counts[_denormal(table)].sum())
    figures |= _values(plan, partial, here, times, target_db) if here.size else {"zeros": 0}
    return replace(blank(plan.weight, note=plan.note), **figures)


def _rising(raws: NDArray[Any], counts: Counts, dtype: DType) -> tuple[NDArray[Any], Counts]:
    """Sorted patterns, and their counts, in the order of what they mean."""
    if not dtype.real and dtype.numpy[1] == "u":
        return raws, counts
    negative = int(np.searchsorted(raws, raws.dtype.type(1 << (8 * dtype.bytes - 1))))
    step = -1 if dtype.real else 1
    order = [(part[negative:][::step], part[:negative]) for part in (raws, counts)]
    return np.concatenate(order[0]), np.concatenate(order[1])


def _odd_values(numbers: Doubles, counts: Counts) -> tuple[int, int, int]:
    """How many are not a number, how many infinite, and how many different ones of these there are."""
    nan = np.isnan(numbers)
    infinities = {float(number) for number in numbers[~nan]}
    return int(counts[nan].sum()), int(counts[~nan].sum()), len(infinities) + int(nan.any())


def _denormal(table: ValueCounts) -> NDArray[np.bool_]:
    if table.dtype.family == COUNTED:
        return np.asarray(denormal_patterns(table.dtype.name)[table.raws])
    tiny = float(np.finfo(table.dtype.numpy).tiny)
    return np.asarray((np.abs(table.numbers) < tiny) & (table.numbers != 0))


def _values(plan: ChunkPlan, partial: Partial, here: Doubles, times: Counts, target_db: float) -> dict[str, Any]:
    n = int(times.sum())
    low, high = float(here[0]), float(here[-1])
    ranks = quantile_ranks(n)
    needed, edges = ranks_needed(ranks), histogram_edges(low, high)
    removed = [int(share * n) for share in PRUNE_SHARES]
    asked = (np.array(part, dtype=np.float64) for part in (needed, edges, removed))
    told = kernel.summary(here, times, *asked, NEAR_ZERO)[0].tolist()
    lengths = (len(SUM_FIELDS), len(needed), len(edges) + 1, len(PRUNE_SHARES), len(CAST_FIELDS))
    firsts, ranked, bins, kept, casts = (
        told[end - size : end] for size, end in zip(lengths, accumulate(lengths), strict=True)
    )
    sums = dict(zip(SUM_FIELDS, firsts, strict=True))
    at = dict(zip(needed, ranked, strict=True))
    moments = Moments(n, *(sums[name] for name in ("mean", "m2", "m3", "m4")))
    energy = sums["energy"]
    figures: dict[str, Any] = {
        "min": low if plan.dtype.real else int(low),
        "max": high if plan.dtype.real else int(high),
        **moment_figures(moments, sums["l1"], energy),
        "zeros": int(sums["zeros"]),
        "quantiles": quantiles_from(ranks, at),
        "histogram": Histogram(low, high, tuple(map(int, bins))),
    }
    if plan.dtype.real or plan.dtype.family == COUNTED:
        figures |= {"near_zeros": int(sums["near_zeros"]), "near_zero_below": sums["near_zero_below"]}
    if plan.dtype.real or plan.dtype.bytes == 1:
        rows = row_sums(partial.tiles)
        figures |= row_figures(plan, partial, rows)
        if plan.dtype.real and math.isfinite(energy):
            figures["pruning"] = pruning(kept, energy)
            figures |= roundings(plan, rows, dict(zip(CAST_FIELDS, casts, strict=True)), energy, target_db)
    return figures
