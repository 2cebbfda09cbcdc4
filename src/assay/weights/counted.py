"""The statistics of types whose every pattern is counted: one pass, all exact."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from msgspec.structs import replace

from assay.document.weights import Histogram, Pruned, TensorStatistics
from assay.weights.chunks import Plan
from assay.weights.distribution import (
    NEAR_ZERO,
    Doubles,
    entropy,
    histogram_edges,
    known,
    moments_of,
    quantile_ranks,
    quantiles_from,
    ranks_needed,
)
from assay.weights.dtypes import denormal_patterns, values
from assay.weights.finalize import blank, content_of, roundings, row_figures
from assay.weights.layout import ERROR_FIELDS, PRUNE_SHARES
from assay.weights.partials import Partial
from assay.weights.reference import cast_errors


def statistics(plan: Plan, partial: Partial, target_db: float) -> TensorStatistics:
    """Every statistic of a counted tensor."""
    table = values(plan.dtype.name)
    order = np.argsort(table[partial.patterns], kind="stable")
    used, times = partial.patterns[order], partial.counts[order].astype(np.float64)
    here = table[used]
    finite = np.isfinite(here)
    figures: dict[str, Any] = {
        "content": content_of(partial.tiles),
        "nan": int(times[np.isnan(here)].sum()),
        "inf": int(times[np.isinf(here)].sum()),
        "distinct": np.unique(here[finite]).size + int(not finite.all() and np.isnan(here).any()) + _infinities(here),
    }
    figures |= _entropy(plan, times)
    if finite.any():
        figures |= _values(plan, partial, here[finite] + 0.0, times[finite], target_db)
    if plan.dtype.real:
        figures["denormals"] = int(times[denormal_patterns(plan.dtype.name)[used] & finite].sum())
    return replace(blank(plan.weight, note=plan.note), **figures)


def _values(plan: Plan, partial: Partial, here: Doubles, times: Doubles, target_db: float) -> dict[str, Any]:
    moments = moments_of(here, times)
    near = NEAR_ZERO * math.sqrt(moments.energy / moments.n)
    cumulated = np.cumsum(times)
    ranks = quantile_ranks(moments.n)
    at = {rank: float(here[np.searchsorted(cumulated, rank, side="right")]) for rank in ranks_needed(ranks)}
    figures: dict[str, Any] = {
        "min": float(here[0]),
        "max": float(here[-1]),
        "mean": moments.mean,
        "std": moments.std,
        "skewness": moments.skewness,
        "kurtosis": moments.kurtosis,
        "l1": known(float((times * np.abs(here)).sum())),
        "l2": known(math.sqrt(float((times * here * here).sum()))),
        "zeros": int(times[here == 0].sum()),
        "near_zeros": int(times[np.abs(here) <= near].sum()),
        "near_zero_below": near,
        "quantiles": quantiles_from(ranks, at),
        "histogram": _histogram(here, times),
    }
    if plan.dtype.native >= 0:
        figures |= row_figures(plan, partial)
    if plan.dtype.real:
        figures["pruning"] = _pruning(here, times, moments.n)
        energy = float((times * here * here).sum())
        peak = float(np.abs(here).max())
        errors = [float((times * error).sum()) for error in cast_errors(here, peak)]
        figures |= roundings(plan, partial, dict(zip(ERROR_FIELDS, errors, strict=False)), energy, target_db)
    return figures


def _infinities(here: Doubles) -> int:
    return int(np.isposinf(here).any()) + int(np.isneginf(here).any())


def _entropy(plan: Plan, times: Doubles) -> dict[str, Any]:
    bits = entropy(times)
    return {"entropy_bits": bits, "entropy_bytes": math.ceil(bits * float(times.sum()) / 8)}


def _histogram(here: Doubles, times: Doubles) -> Histogram:
    low, high = float(here[0]), float(here[-1])
    edges = histogram_edges(low, high)
    bins = np.searchsorted(np.array(edges), here, side="right")
    return Histogram(low, high, tuple(int(count) for count in np.bincount(bins, times, len(edges) + 1)))


def _pruning(here: Doubles, times: Doubles, n: int) -> tuple[Pruned, ...]:
    order = np.argsort(np.abs(here), kind="stable")
    squares, times = here[order] ** 2, times[order]
    energy = float((squares * times).sum())
    if not energy:
        return ()
    counted = np.cumsum(times)
    above = energy - np.cumsum(squares * times)
    points = []
    for share in PRUNE_SHARES:
        removed = int(share * n)
        place = min(int(np.searchsorted(counted, removed, side="right")), squares.size - 1)
        kept = max(0.0, float(above[place])) + (float(counted[place]) - removed) * float(squares[place])
        points.append(Pruned(share, min(1.0, kept / energy)))
    return tuple(points)
