"""Compares two groups of traces layer by layer: what changed, and whether the change is more than noise.

With several passes on both sides, a difference is significant if Welch's test rejects equal means at the 1 % level
and nearly all pairs of passes differ in the same direction. With one pass on a side the noise is unknown, and so is
the verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from assay.document.trace import LayerChange, Trace, TraceDiff
from assay.trace.read.across import compared_time, median, self_times

_CRITICAL = (
    (1, 63.66), (2, 9.92), (3, 5.84), (4, 4.60), (5, 4.03), (6, 3.71), (7, 3.50), (8, 3.36), (10, 3.17),
    (15, 2.95), (20, 2.85), (30, 2.75), (60, 2.66),
)  # fmt: skip
"""Degrees of freedom and the critical value of Student's t (99 %, two-sided)."""
_NORMAL = 2.58
_APART = 0.9
"""The share of pairs of passes that must differ in the same direction."""


def compare(before: Sequence[Trace], after: Sequence[Trace]) -> TraceDiff:
    """The changes from `before` to `after`; each side has one or more passes of a model."""
    time = compared_time([*before, *after])
    old, new = [self_times(trace, time) for trace in before], [self_times(trace, time) for trace in after]
    names = dict.fromkeys(name for times in (*old, *new) for name in times)
    layers = [_change(name, _values(old, name), _values(new, name)) for name in names]
    wholes = [[_whole(trace, time) for trace in side] for side in (before, after)]
    return TraceDiff(
        before=tuple(trace.path for trace in before),
        after=tuple(trace.path for trace in after),
        time=time,
        total=_change("TOTAL", *wholes),
        layers=sorted(layers, key=lambda row: (-abs(row.change_ns), row.name)),
        notes=_notes(before, after),
    )


def _whole(trace: Trace, time: str) -> int:
    return (trace.gpu_ns or 0) if time == "gpu" else trace.cpu_ns


def _values(side: list[dict[str, int]], name: str) -> list[int]:
    return [times[name] for times in side if name in times]


def _change(name: str, old: list[int], new: list[int]) -> LayerChange:
    before, after = (median(side) if side else None for side in (old, new))
    noise = noise_ns(old, new)
    change = (after or 0) - (before or 0)
    return LayerChange(name, before, after, change, noise, _verdict(old, new, change, noise))


def _verdict(old: list[int], new: list[int], change: int, noise: int | None) -> str:
    if not old or not new:
        return "gone" if old else "new"
    if noise is None:
        return "unknown"
    pairs = np.subtract.outer(np.array(new), np.array(old))
    apart = max(float((pairs > 0).mean()), float((pairs < 0).mean()))
    if abs(change) <= noise or apart < _APART:
        return "same"
    return "slower" if change > 0 else "faster"


def noise_ns(old: Sequence[int], new: Sequence[int]) -> int | None:
    """The largest difference of two medians expected by chance; None if a side has fewer than two passes."""
    if min(len(old), len(new)) < 2:
        return None
    parts = [float(np.var(side, ddof=1)) / len(side) for side in (old, new)]
    variance = sum(parts)
    if not variance:
        return 0
    freedom = variance**2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, (old, new), strict=True))
    return round(_critical(freedom) * math.sqrt(variance))


def _critical(freedom: float) -> float:
    fitting = [value for degrees, value in _CRITICAL if degrees <= freedom + 1e-9]
    return _NORMAL if freedom > 120 else fitting[-1] if fitting else _CRITICAL[0][1]


def _notes(before: Sequence[Trace], after: Sequence[Trace]) -> tuple[str, ...]:
    notes = []
    if min(len(before), len(after)) < 2:
        notes.append("at least one side has only one pass, so noise is unknown: give several passes per side")
    models = {trace.model_name for trace in (*before, *after) if trace.model_name}
    if len(models) > 1:
        notes.append(f"the two sides are different models: {', '.join(sorted(models))}")
    return tuple(notes)
