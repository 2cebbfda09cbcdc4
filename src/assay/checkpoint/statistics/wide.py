"""The statistics of 32- and 64-bit types: moments in the first pass, order statistics by refining passes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.checkpoint.statistics.chunks import ChunkPlan
from assay.checkpoint.statistics.distribution import (
    Moments,
    code_bytes,
    finite_or_none,
    histogram_edges,
    joined_moments,
    moment_statistics,
    quantile_ranks,
    quantiles_from,
    ranks_needed,
)
from assay.checkpoint.statistics.dtypes import DType
from assay.checkpoint.statistics.finalize import (
    column,
    described,
    error_sums,
    pruning,
    roundings,
    row_statistics,
    row_sums,
)
from assay.checkpoint.statistics.kernel import kernel
from assay.checkpoint.statistics.keys import keys_at_least, to_key
from assay.checkpoint.statistics.layout import NEAR_ZERO, PRUNE_SHARES
from assay.checkpoint.statistics.partials import Partial, Refined
from assay.checkpoint.statistics.passes import Request
from assay.checkpoint.statistics.search import (
    ValueSearch,
    begin,
    magnitudes_of,
    nonfinite_tops,
    request,
    values_of,
)
from assay.document.weights import Histogram, TensorStatistics


def begin_search(plan: ChunkPlan, partial: Partial) -> ValueSearch | None:
    """The queries for the refining passes; None if no value is finite."""
    moments = moments_of_tiles(partial)
    if not moments.n:
        return None
    edges = np.concatenate((_bin_keys(plan, partial), _near_zero_keys(plan.dtype, moments)))
    ranks = [rank // plan.repeats for rank in ranks_needed(quantile_ranks(moments.n * plan.repeats))]
    magnitude_ranks = [count // plan.repeats for count in _removed(plan, moments)] if plan.dtype.real else []
    return begin(plan.dtype, partial.patterns, partial.counts, ranks, np.sort(edges), magnitude_ranks)


def next_request(partial: Partial, search: ValueSearch) -> Request:
    """The request for the next refining pass."""
    low, high = _range(partial)
    return request(search, max(-low, high, 0.0))


def statistics(
    plan: ChunkPlan, partial: Partial, search: ValueSearch | None, refined: Refined | None, target_db: float
) -> TensorStatistics:
    """All statistics of a wide tensor with too many distinct values to count."""
    stored = moments_of_tiles(partial)
    fields: dict[str, Any] = {"zeros": plan.repeats * int(column(partial.tiles, "zeros").sum())}
    fields |= _nonfinite_and_denormals(plan, partial) if plan.dtype.real else {"nan": 0, "inf": 0}
    if search is None or refined is None:
        return described(plan, partial, fields)
    fields |= _values(plan, search, partial, stored) | _near_zeros(plan, search, stored)
    counts = (*refined.planes, partial.counts)
    fields["entropy_bytes"] = code_bytes(float(each.sum()) * kernel.entropy(each) for each in counts)
    if plan.dtype.real:
        sums, errors = row_sums(plan, partial), error_sums(refined.tiles)
        fields |= row_statistics(plan, sums)
        fields |= pruning(_kept(plan, search, stored, errors), stored.energy)
        fields |= roundings(plan, sums, errors, stored.energy, target_db)
    return described(plan, partial, fields)


def moments_of_tiles(partial: Partial) -> Moments:
    """The joint moments of all tiles."""
    fields = ("finite", "mean", "m2", "m3", "m4")
    return joined_moments(*(column(partial.tiles, name) for name in fields))


def _range(partial: Partial) -> tuple[float, float]:
    return float(column(partial.tiles, "min").min()), float(column(partial.tiles, "max").max())


def _bin_keys(plan: ChunkPlan, partial: Partial) -> NDArray[np.uint64]:
    return keys_at_least(histogram_edges(*_range(partial)), plan.dtype)


def _removed(plan: ChunkPlan, stored: Moments) -> list[int]:
    """For each point of the pruning curve, how many elements of the tensor are set to zero."""
    return [int(share * stored.n * plan.repeats) for share in PRUNE_SHARES]


def _kept(plan: ChunkPlan, search: ValueSearch, stored: Moments, errors: Mapping[str, float]) -> Iterator[float]:
    """The energy of the stored values that is kept at each point of the pruning curve."""
    kept_energies, magnitudes = search.kept_energies.tolist(), magnitudes_of(search)
    points = zip(PRUNE_SHARES, _removed(plan, stored), kept_energies, magnitudes, strict=True)
    for share, removed, kept, magnitude in points:
        # Of the first value that is kept, some of the repetitions may be set to zero.
        yield errors[f"above_{share}"] + kept - removed % plan.repeats / plan.repeats * magnitude**2


def _near_zero_limit(dtype: DType, stored: Moments) -> float:
    """The largest magnitude that counts as near zero, rounded to the dtype."""
    near = finite_or_none(NEAR_ZERO * math.sqrt(stored.energy / stored.n)) or 0.0
    if not dtype.real:
        return near
    return float(np.array([min(near, float(np.finfo(dtype.numpy).max))]).astype(dtype.numpy)[0])


def _near_zero_keys(dtype: DType, stored: Moments) -> NDArray[np.uint64]:
    """Two keys: the values from the first up to, but not including, the second are near zero."""
    near, bits = _near_zero_limit(dtype, stored), 8 * dtype.bytes
    if not dtype.real:
        return keys_at_least((-near, math.floor(near) + 1), dtype)
    raw = int(np.array([near], dtype=dtype.numpy).view(f"<u{dtype.bytes}")[0])
    return np.array([to_key(raw | 1 << (bits - 1), bits, dtype), to_key(raw, bits, dtype) + 1], dtype=np.uint64)


def _near_zeros(plan: ChunkPlan, search: ValueSearch, stored: Moments) -> dict[str, Any]:
    low, high = np.searchsorted(search.edge_keys, _near_zero_keys(search.dtype, stored))
    near = int(search.counts_below[high] - search.counts_below[low])
    return {"near_zeros": plan.repeats * near, "near_zero_below": _near_zero_limit(search.dtype, stored)}


def _nonfinite_and_denormals(plan: ChunkPlan, partial: Partial) -> dict[str, int]:
    """The counts of infinities, NaN and denormals: those of their top halfwords, less infinities or zeros."""
    infinite = int(column(partial.tiles, "infinite").sum())
    first_normal = 0x0080 if plan.dtype.bytes == 4 else 0x0010
    small = (partial.patterns & np.uint16(0x7FFF)) < first_normal
    nonfinite = nonfinite_tops(partial.patterns, plan.dtype)
    return {
        "inf": plan.repeats * infinite,
        "nan": plan.repeats * (int(partial.counts[nonfinite].sum()) - infinite),
        "denormals": plan.repeats * (int(partial.counts[small].sum()) - int(column(partial.tiles, "zeros").sum())),
    }


def _values(plan: ChunkPlan, search: ValueSearch, partial: Partial, stored: Moments) -> dict[str, Any]:
    moments = stored.repeated(plan.repeats)
    ranks = quantile_ranks(moments.n)
    value_at = dict(zip(ranks_needed(ranks), values_of(search), strict=True))
    low, high = value_at[0], value_at[moments.n - 1]
    edges = np.searchsorted(search.edge_keys, _bin_keys(plan, partial))
    below = np.concatenate(([0], search.counts_below[edges], [stored.n]))
    bins = plan.repeats * np.diff(below)
    l1 = plan.repeats * float(np.sum(column(partial.tiles, "l1")))
    return {
        "min": low,
        "max": high,
        **moment_statistics(moments, l1, moments.energy),
        "quantiles": quantiles_from(ranks, {rank: float(value) for rank, value in value_at.items()}),
        "histogram": Histogram(float(low), float(high), tuple(bins.tolist())),
        "entropy_bits": kernel.entropy(bins.astype(np.uint64)),
    }
