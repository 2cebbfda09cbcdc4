"""Utilisation of each accelerator: busy and idle time, causes of idling, overlap, and queue length."""

from __future__ import annotations

import numpy as np

from assay.document.trace import DeviceTimes
from assay.trace.read import intervals
from assay.trace.read.activity import KINDS, Activity
from assay.trace.read.categories import Role, is_loading, is_synchronize
from assay.trace.read.columns import Columns, Flags, Ints
from assay.trace.read.nesting import Forest, looked_up

LATE = "the CPU launched late"
SYNCHRONIZED = "the CPU waited for the accelerator first"
QUEUED = "launched in time, waited for other work"
SHORT = "short gaps between kernels"
UNRECORDED = "not known: no launch record"
_SHORT_NS = 2_000
"""Gaps of up to this length are the accelerator's own overhead between queued kernels."""


def device_times(columns: Columns, forest: Forest, activity: Activity) -> list[DeviceTimes]:
    """One row per accelerator."""
    waits, loads = _waits(columns, forest), loading(columns, forest)
    return [
        _device(name, activity, np.flatnonzero(activity.device == index), forest, waits, loads)
        for index, name in enumerate(activity.devices)
    ]


def loading(columns: Columns, forest: Forest) -> tuple[Ints, Ints]:
    """The intervals in which any thread loaded input data."""
    names = [
        role in (Role.HOST, Role.ANNOTATION, Role.PYTHON) and is_loading(name)
        for role, name in zip(columns.roles.tolist(), columns.names, strict=True)
    ]
    spans = forest.flagged(np.array(names, dtype=bool))
    return intervals.union(forest.start[spans], forest.end[spans])


def _device(
    name: str, activity: Activity, chosen: Ints, forest: Forest, waits: tuple[Ints, Ints], loads: tuple[Ints, Ints]
) -> DeviceTimes:
    start, end, kind = activity.start[chosen], activity.end[chosen], activity.kind[chosen]
    sets = {what: (start[kind == place], end[kind == place]) for place, what in enumerate(KINDS)}
    span, busy = int(end.max() - start.min()), intervals.length(start, end)
    longest, mean = _queue(activity, chosen, forest)
    return DeviceTimes(
        name=name,
        span_ns=span,
        busy_ns=busy,
        idle_ns=span - busy,
        idle_causes=_idle_causes(activity, chosen, forest, waits),
        idle_loading_ns=_idle_within(start, end, loads),
        compute_ns=intervals.length(*sets["compute"]),
        communication_ns=intervals.length(*sets["communication"]),
        copy_ns=intervals.length(*sets["copy"]),
        communication_hidden_ns=intervals.common(sets["communication"], sets["compute"]),
        copy_hidden_ns=intervals.common(sets["copy"], sets["compute"]),
        streams=len(np.unique(activity.stream[chosen])),
        queue_max=longest,
        queue_mean=mean,
    )


def _idle_within(start: Ints, end: Ints, spans: tuple[Ints, Ints]) -> int:
    """The time within `spans`, between the first and the last kernel, in which none ran."""
    first, last = int(start.min()), int(end.max())
    inside = np.clip(spans[0], first, last), np.clip(spans[1], first, last)
    return intervals.length(*inside) - intervals.common(inside, (start, end))


def _waits(columns: Columns, forest: Forest) -> tuple[Ints, Ints]:
    """The intervals in which any thread waited for an accelerator."""
    names = [
        role == Role.RUNTIME and is_synchronize(name)
        for role, name in zip(columns.roles.tolist(), columns.names, strict=True)
    ]
    waiting = forest.flagged(np.array(names, dtype=bool))
    return intervals.union(forest.start[waiting], forest.end[waiting])


def _idle_causes(activity: Activity, chosen: Ints, forest: Forest, waits: tuple[Ints, Ints]) -> dict[str, int]:
    """Idle time by cause, that is, by what the kernel that ended each gap had waited for."""
    order = chosen[np.argsort(activity.start[chosen], kind="stable")]
    until = np.maximum.accumulate(activity.end[order])
    gap_end = activity.start[order][1:]
    after = np.flatnonzero(gap_end > until[:-1])
    begin, end = until[after], gap_end[after]
    launch = activity.launch[order[after + 1]]
    launched = looked_up(forest.start, launch, 0)
    late = launched >= begin
    cause = np.select(
        [launch < 0, late & _waited(waits, begin), late, end - begin <= _SHORT_NS],
        [UNRECORDED, SYNCHRONIZED, LATE, SHORT],
        QUEUED,
    )
    gaps = end - begin
    return {str(name): int(gaps[cause == name].sum()) for name in np.unique(cause).tolist()}


def _waited(waits: tuple[Ints, Ints], begin: Ints) -> Flags:
    """Whether a thread was waiting for the accelerator when each gap began."""
    if not len(waits[0]):
        return np.zeros(len(begin), dtype=bool)
    place = np.searchsorted(waits[0], begin, side="right") - 1
    return (place >= 0) & (waits[1][place] >= begin)


def _queue(activity: Activity, chosen: Ints, forest: Forest) -> tuple[int | None, float | None]:
    """Maximum and mean number of kernels launched but not yet started; None without launch records."""
    recorded = chosen[activity.launch[chosen] >= 0]
    if not len(recorded):
        return None, None
    begin = activity.start[recorded]
    launched = np.minimum(forest.start[activity.launch[recorded]], begin)
    times = np.r_[launched, begin]
    change = np.r_[np.ones(len(recorded), dtype=np.int64), -np.ones(len(recorded), dtype=np.int64)]
    order = np.lexsort((change, times))
    waiting = np.cumsum(change[order])
    span = int(times.max() - times.min())
    mean = float((begin - launched).sum()) / span if span else None
    return int(waiting.max()), mean
