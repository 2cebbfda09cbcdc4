"""The statistics of 32- and 64-bit types: moments first, then refining passes until every bit is known."""

from __future__ import annotations

import math
from operator import add
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from assay.checkpoint.statistics.chunks import ChunkPlan
from assay.checkpoint.statistics.distribution import (
    NEAR_ZERO,
    Moments,
    histogram_edges,
    joined_moments,
    moment_figures,
    quantile_ranks,
    quantiles_from,
    ranks_needed,
)
from assay.checkpoint.statistics.dtypes import DType
from assay.checkpoint.statistics.finalize import (
    blank,
    column,
    content_of,
    error_sums,
    pruning,
    roundings,
    row_figures,
    row_sums,
)
from assay.checkpoint.statistics.kernel import kernel
from assay.checkpoint.statistics.keys import keys_at_least, to_key
from assay.checkpoint.statistics.layout import PRUNE_SHARES
from assay.checkpoint.statistics.partials import Partial, Refined
from assay.checkpoint.statistics.passes import Request
from assay.checkpoint.statistics.search import ValueSearch, begin, nonfinite_tops, request, values_of
from assay.document.weights import Histogram, TensorStatistics


def questions(plan: ChunkPlan, partial: Partial) -> ValueSearch | None:
    """What the refining passes must answer; None where no value is finite."""
    moments = moments_of_tiles(partial)
    if not moments.n:
        return None
    edges = keys_at_least(histogram_edges(*_range(partial)), plan.dtype)
    ranks = ranks_needed(quantile_ranks(moments.n))
    places: list[int] = []
    if plan.dtype.real:
        edges = np.sort(np.concatenate((edges, _near_keys(plan.dtype, moments))))
        places = [int(share * moments.n) for share in PRUNE_SHARES]
    return begin(plan.dtype, partial.patterns, partial.counts, ranks, edges, places)


def next_request(partial: Partial, search: ValueSearch) -> Request:
    """The next refining pass."""
    low, high = _range(partial)
    return request(search, max(-low, high, 0.0))


def statistics(
    plan: ChunkPlan, partial: Partial, search: ValueSearch | None, refined: Refined | None, target_db: float
) -> TensorStatistics:
    """Every statistic of a wide tensor with too many values to keep."""
    counts = partial.counts
    moments = moments_of_tiles(partial)
    figures: dict[str, Any] = {"content": content_of(partial.tiles)}
    if plan.dtype.real:
        figures |= _odd_values(plan, partial)
    figures["zeros"] = int(column(partial.tiles, "zeros").sum())
    if search is None or refined is None:
        return replace(blank(plan.weight, note=plan.note), **figures)
    figures |= _values(search, partial, moments)
    bits = max(0.0, sum(map(kernel.entropy, (counts, *refined.planes))))
    figures |= {"entropy_bits": bits, "entropy_bytes": math.ceil(bits * float(counts.sum()) / 8)}
    if plan.dtype.real:
        sums = row_sums(partial.tiles)
        figures |= _near_zeros(search, moments) | row_figures(plan, partial, sums)
        if math.isfinite(moments.energy):
            errors = error_sums(refined.tiles)
            above = (errors[f"above_{share}"] for share in PRUNE_SHARES)
            figures["pruning"] = pruning(map(add, above, search.kept.tolist()), moments.energy)
            figures |= roundings(plan, sums, errors, moments.energy, target_db)
    return replace(blank(plan.weight, note=plan.note), **figures)


def moments_of_tiles(partial: Partial) -> Moments:
    """The moments of all tiles together."""
    fields = ("finite", "mean", "m2", "m3", "m4")
    return joined_moments(*(column(partial.tiles, name) for name in fields))


def _range(partial: Partial) -> tuple[float, float]:
    return float(column(partial.tiles, "min").min()), float(column(partial.tiles, "max").max())


def _near(dtype: DType, moments: Moments) -> float:
    """The largest magnitude that is near zero, as a number of the dtype."""
    largest = float(np.finfo(dtype.numpy).max)
    near = min(NEAR_ZERO * math.sqrt(moments.energy / moments.n), largest)
    return float(np.array([near]).astype(dtype.numpy)[0])


def _near_keys(dtype: DType, moments: Moments) -> NDArray[np.uint64]:
    """The keys below which lies what is less than near zero, and with what is near zero."""
    bits = 8 * dtype.bytes
    raw = int(np.array([_near(dtype, moments)], dtype=dtype.numpy).view(f"<u{dtype.bytes}")[0])
    return np.array([to_key(raw | 1 << (bits - 1), bits, dtype), to_key(raw, bits, dtype) + 1], dtype=np.uint64)


def _near_zeros(search: ValueSearch, moments: Moments) -> dict[str, Any]:
    low, high = np.searchsorted(search.goals, _near_keys(search.dtype, moments))
    near = int(search.below[high] - search.below[low])
    return {"near_zeros": near, "near_zero_below": _near(search.dtype, moments)}


def _odd_values(plan: ChunkPlan, partial: Partial) -> dict[str, int]:
    """NaN, infinities and denormals: the last two are told from their neighbours in a bin by exact counts."""
    infinite = int(column(partial.tiles, "infinite").sum())
    first_normal = 0x0080 if plan.dtype.bytes == 4 else 0x0010
    small = (partial.patterns & np.uint16(0x7FFF)) < first_normal
    odd = nonfinite_tops(partial.patterns, plan.dtype)
    return {
        "inf": infinite,
        "nan": int(partial.counts[odd].sum()) - infinite,
        "denormals": int(partial.counts[small].sum()) - int(column(partial.tiles, "zeros").sum()),
    }


def _values(search: ValueSearch, partial: Partial, moments: Moments) -> dict[str, Any]:
    ranks = quantile_ranks(moments.n)
    at = dict(zip(ranks_needed(ranks), values_of(search), strict=True))
    low, high = at[0], at[moments.n - 1]
    edges = keys_at_least(histogram_edges(*_range(partial)), search.dtype)
    below = np.concatenate(([0], search.below[np.searchsorted(search.goals, edges)], [moments.n]))
    return {
        "min": low,
        "max": high,
        **moment_figures(moments, float(np.sum(column(partial.tiles, "l1"))), moments.energy),
        "quantiles": quantiles_from(ranks, {rank: float(value) for rank, value in at.items()}),
        "histogram": Histogram(float(low), float(high), tuple(int(count) for count in np.diff(below))),
    }
