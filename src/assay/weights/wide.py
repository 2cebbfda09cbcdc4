"""The statistics of 32- and 64-bit types: moments first, then refining passes until every bit is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from msgspec.structs import replace

from assay.document.weights import Histogram, Pruned, TensorStatistics
from assay.weights.chunks import Plan
from assay.weights.distribution import (
    NEAR_ZERO,
    Moments,
    entropy,
    histogram_edges,
    joined_moments,
    known,
    quantile_ranks,
    quantiles_from,
    ranks_needed,
)
from assay.weights.finalize import blank, column, content_of, error_sums, roundings, row_figures
from assay.weights.keys import number
from assay.weights.layout import PRUNE_SHARES
from assay.weights.partials import Partial, Refined
from assay.weights.passes import Request
from assay.weights.search import Magnitude, Search, begin, nonfinite_tops, request, values_of


def questions(plan: Plan, partial: Partial) -> Search | None:
    """What the refining passes must answer; None where no value is finite."""
    moments = moments_of_tiles(partial)
    if not moments.n:
        return None
    low, high = _range(partial)
    ranks = ranks_needed(quantile_ranks(moments.n))
    places = [int(share * moments.n) for share in PRUNE_SHARES] if plan.dtype.real else []
    return begin(plan.dtype, partial.patterns, partial.counts, ranks, histogram_edges(low, high), places)


def next_request(partial: Partial, search: Search) -> Request:
    """The next refining pass."""
    low, high = _range(partial)
    return request(search, max(-low, high, 0.0), _near(search, moments_of_tiles(partial)))


def statistics(
    plan: Plan, partial: Partial, search: Search | None, refined: Refined | None, target_db: float
) -> TensorStatistics:
    """Every statistic of a wide tensor."""
    counts = partial.counts
    moments = moments_of_tiles(partial)
    figures: dict[str, Any] = {"content": content_of(partial.tiles)}
    if plan.dtype.real:
        figures |= _odd_values(plan, partial)
    figures["zeros"] = int(column(partial.tiles, "zeros").sum())
    if partial.distinct is not None:
        figures["distinct"] = _distinct(plan, partial)
    if search is None or refined is None:
        return replace(blank(plan.weight, note=plan.note), **figures)
    figures |= _values(search, partial, moments)
    bits = entropy(counts) + sum(entropy(plane) for plane in refined.planes)
    figures |= {"entropy_bits": bits, "entropy_bytes": math.ceil(bits * float(counts.sum()) / 8)}
    if plan.dtype.real:
        errors = error_sums(refined.tiles)
        figures["near_zeros"] = int(errors["near_zeros"])
        figures["near_zero_below"] = _near(search, moments)
        figures |= row_figures(plan, partial)
        if math.isfinite(moments.energy):
            figures["pruning"] = _pruning(search, errors, moments)
            figures |= roundings(plan, partial, errors, moments.energy, target_db)
    return replace(blank(plan.weight, note=plan.note), **figures)


def moments_of_tiles(partial: Partial) -> Moments:
    """The moments of all tiles together."""
    fields = ("finite", "mean", "m2", "m3", "m4")
    return joined_moments(*(column(partial.tiles, name) for name in fields))


def _range(partial: Partial) -> tuple[float, float]:
    return float(column(partial.tiles, "min").min()), float(column(partial.tiles, "max").max())


def _near(search: Search, moments: Moments) -> float:
    if not search.dtype.real:
        return 0.0
    near = NEAR_ZERO * math.sqrt(moments.energy / moments.n)
    return float(np.array([near]).astype(search.dtype.numpy)[0])


def _odd_values(plan: Plan, partial: Partial) -> dict[str, int]:
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


def _distinct(plan: Plan, partial: Partial) -> int:
    raw = partial.distinct if partial.distinct is not None else np.zeros(0, dtype=np.uint64)
    numbers = raw.astype(f"<u{plan.dtype.bytes}").view(plan.dtype.numpy)
    return int(np.unique(numbers).size)


def _values(search: Search, partial: Partial, moments: Moments) -> dict[str, Any]:
    ranks = quantile_ranks(moments.n)
    at = dict(zip(ranks_needed(ranks), values_of(search), strict=True))
    low, high = at[0], at[moments.n - 1]
    below = np.concatenate(([0], search.below, [moments.n]))
    return {
        "min": low,
        "max": high,
        "mean": known(moments.mean),
        "std": known(moments.std),
        "skewness": moments.skewness,
        "kurtosis": moments.kurtosis,
        "l1": known(float(np.sum(column(partial.tiles, "l1")))),
        "l2": known(math.sqrt(moments.energy)),
        "quantiles": quantiles_from(ranks, {rank: float(value) for rank, value in at.items()}),
        "histogram": Histogram(float(low), float(high), tuple(int(count) for count in np.diff(below))),
    }


def _pruning(search: Search, errors: dict[str, float], moments: Moments) -> tuple[Pruned, ...]:
    if not moments.energy:
        return ()
    points = []
    for share, item in zip(PRUNE_SHARES, search.magnitudes, strict=True):
        kept = errors[f"above_{share}"] + _kept_behind_prefix(search, item)
        points.append(Pruned(share, min(1.0, kept / moments.energy)))
    return tuple(points)


def _kept_behind_prefix(search: Search, item: Magnitude) -> float:
    """Energy of what is kept among the magnitudes that share the threshold's prefix."""
    if item.tail is None:
        return 0.0
    tails = item.tail[0].astype(f"<u{search.dtype.bytes}").view(search.dtype.numpy).astype(np.float64)
    threshold = float(number(item.key, search.dtype))
    return float((tails * tails * item.tail[1]).sum()) + item.equal_kept * threshold * threshold
