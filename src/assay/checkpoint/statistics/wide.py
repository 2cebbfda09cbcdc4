"""The statistics of 32- and 64-bit types: moments in the first pass, order statistics by refining passes."""

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
    coded_bytes,
    distribution,
    histogram_edges,
    joined_moments,
    moment_statistics,
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
    row_statistics,
    row_sums,
)
from assay.checkpoint.statistics.keys import keys_at_least, to_key
from assay.checkpoint.statistics.layout import PRUNE_SHARES
from assay.checkpoint.statistics.partials import Partial, Refined
from assay.checkpoint.statistics.passes import Request
from assay.checkpoint.statistics.search import ValueSearch, begin, nonfinite_tops, request, values_of
from assay.document.weights import TensorStatistics


def begin_search(plan: ChunkPlan, partial: Partial) -> ValueSearch | None:
    """The queries for the refining passes; None if no value is finite."""
    moments = moments_of_tiles(partial)
    if not moments.n:
        return None
    edges = keys_at_least(histogram_edges(*_range(partial)), plan.dtype)
    ranks = ranks_needed(quantile_ranks(moments.n))
    magnitude_ranks: list[int] = []
    if plan.dtype.real:
        edges = np.sort(np.concatenate((edges, _near_zero_keys(plan.dtype, moments))))
        magnitude_ranks = [int(share * moments.n) for share in PRUNE_SHARES]
    return begin(plan.dtype, partial.patterns, partial.counts, ranks, edges, magnitude_ranks)


def next_request(partial: Partial, search: ValueSearch) -> Request:
    """The request for the next refining pass."""
    low, high = _range(partial)
    return request(search, max(-low, high, 0.0))


def statistics(
    plan: ChunkPlan, partial: Partial, search: ValueSearch | None, refined: Refined | None, target_db: float
) -> TensorStatistics:
    """All statistics of a wide tensor with too many distinct values to count."""
    moments = moments_of_tiles(partial)
    fields: dict[str, Any] = {"content": content_of(partial.tiles)}
    if plan.dtype.real:
        fields |= _nonfinite_and_denormals(plan, partial)
    fields["zeros"] = int(column(partial.tiles, "zeros").sum())
    if search is None or refined is None:
        return replace(blank(plan.weight, note=plan.note), **fields)
    fields |= _values(search, partial, moments)
    fields["entropy_bytes"] = coded_bytes((*refined.planes, partial.counts))
    if plan.dtype.real:
        sums = row_sums(partial.tiles)
        fields |= _near_zeros(search, moments) | row_statistics(plan, partial, sums)
        if math.isfinite(moments.energy):
            errors = error_sums(refined.tiles)
            above = (errors[f"above_{share}"] for share in PRUNE_SHARES)
            fields["pruning"] = pruning(map(add, above, search.kept_energies.tolist()), moments.energy)
            fields |= roundings(plan, sums, errors, moments.energy, target_db)
    return replace(blank(plan.weight, note=plan.note), **fields)


def moments_of_tiles(partial: Partial) -> Moments:
    """The joint moments of all tiles."""
    fields = ("finite", "mean", "m2", "m3", "m4")
    return joined_moments(*(column(partial.tiles, name) for name in fields))


def _range(partial: Partial) -> tuple[float, float]:
    return float(column(partial.tiles, "min").min()), float(column(partial.tiles, "max").max())


def _near_zero_limit(dtype: DType, moments: Moments) -> float:
    """The largest magnitude that counts as near zero, rounded to the dtype."""
    largest = float(np.finfo(dtype.numpy).max)
    near = min(NEAR_ZERO * math.sqrt(moments.energy / moments.n), largest)
    return float(np.array([near]).astype(dtype.numpy)[0])


def _near_zero_keys(dtype: DType, moments: Moments) -> NDArray[np.uint64]:
    """Two keys: the values from the first up to, but not including, the second are near zero."""
    bits = 8 * dtype.bytes
    raw = int(np.array([_near_zero_limit(dtype, moments)], dtype=dtype.numpy).view(f"<u{dtype.bytes}")[0])
    return np.array([to_key(raw | 1 << (bits - 1), bits, dtype), to_key(raw, bits, dtype) + 1], dtype=np.uint64)


def _near_zeros(search: ValueSearch, moments: Moments) -> dict[str, Any]:
    low, high = np.searchsorted(search.edge_keys, _near_zero_keys(search.dtype, moments))
    near = int(search.counts_below[high] - search.counts_below[low])
    return {"near_zeros": near, "near_zero_below": _near_zero_limit(search.dtype, moments)}


def _nonfinite_and_denormals(plan: ChunkPlan, partial: Partial) -> dict[str, int]:
    """The counts of infinities, NaN and denormals: those of their top halfwords, less infinities or zeros."""
    infinite = int(column(partial.tiles, "infinite").sum())
    first_normal = 0x0080 if plan.dtype.bytes == 4 else 0x0010
    small = (partial.patterns & np.uint16(0x7FFF)) < first_normal
    nonfinite = nonfinite_tops(partial.patterns, plan.dtype)
    return {
        "inf": infinite,
        "nan": int(partial.counts[nonfinite].sum()) - infinite,
        "denormals": int(partial.counts[small].sum()) - int(column(partial.tiles, "zeros").sum()),
    }


def _values(search: ValueSearch, partial: Partial, moments: Moments) -> dict[str, Any]:
    ranks = quantile_ranks(moments.n)
    value_at = dict(zip(ranks_needed(ranks), values_of(search), strict=True))
    low, high = value_at[0], value_at[moments.n - 1]
    edges = keys_at_least(histogram_edges(*_range(partial)), search.dtype)
    below = np.concatenate(([0], search.counts_below[np.searchsorted(search.edge_keys, edges)], [moments.n]))
    return {
        "min": low,
        "max": high,
        **moment_statistics(moments, float(np.sum(column(partial.tiles, "l1"))), moments.energy),
        "quantiles": quantiles_from(ranks, {rank: float(value) for rank, value in value_at.items()}),
        **distribution(float(low), float(high), np.diff(below)),
    }
