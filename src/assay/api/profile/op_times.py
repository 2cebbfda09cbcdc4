"""Times of ops from clocked passes: per kind of op, and per module for the backward pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from assay.document.profile import KindTime
from assay.document.rows import Call, OpKind
from assay.machine.samples import spread
from assay.timing.measuring import TimedPass


def kind_times(timed: TimedPass, kinds: Sequence[OpKind]) -> list[KindTime | None]:
    """The times of the forward ops in the order of `kinds`; None for a kind that did not run."""
    samples: dict[int, list[float]] = defaultdict(list)
    totals: dict[int, float] = defaultdict(float)
    counts: dict[int, int] = defaultdict(int)
    for number, op in enumerate(timed.shown.ops):
        seconds = _seconds(timed, number)
        if op.phase != "forward" or not seconds:
            continue
        samples[op.kind] += seconds
        totals[op.kind] += median(seconds)
        counts[op.kind] += 1
    rows: list[KindTime | None] = [None] * len(kinds)
    for index, seconds in samples.items():
        row = _index_of(timed.shown.kinds[index], index, kinds)
        if row is not None:
            rows[row] = KindTime(counts[index], median(seconds), totals[index], spread(seconds) or 0.0)
    return rows


def backward_times(timed: TimedPass, calls: Sequence[Call], modules: int) -> tuple[list[float | None], float]:
    """Backward seconds of each module's own ops, and of ops outside any module."""
    by_module: dict[int, float] = defaultdict(float)
    outside = 0.0
    for number, op in enumerate(timed.shown.ops):
        seconds = _seconds(timed, number)
        if op.phase != "backward" or not seconds:
            continue
        if 0 <= op.call < len(calls):
            by_module[calls[op.call].module] += median(seconds)
        else:
            outside += median(seconds)
    return [by_module.get(index) for index in range(modules)], outside


def device_times(timed: TimedPass) -> dict[int, tuple[float, float]]:
    """Kernel seconds of the forward pass per module: total time and self time."""
    calls = timed.shown.calls
    own: dict[int, float] = defaultdict(float)
    total: dict[int, float] = defaultdict(float)
    for number, op in enumerate(timed.shown.ops):
        seconds = _seconds(timed, number)
        if op.phase != "forward" or not seconds or not 0 <= op.call < len(calls):
            continue
        typical = median(seconds)
        own[calls[op.call].module] += typical
        for module in _modules_around(op.call, calls):
            total[module] += typical
    return {module: (total[module], own[module]) for module in total}


def _modules_around(call: int | None, calls: Sequence[Call]) -> set[int]:
    """The modules of a call and of all calls around it, without duplicates."""
    modules = set()
    while call is not None and call >= 0:
        modules.add(calls[call].module)
        call = calls[call].parent
    return modules


def whole_passes(timed: TimedPass, phase: str) -> list[float]:
    """The sum of one phase's op times in each pass, in seconds."""
    inside = [number for number, op in enumerate(timed.shown.ops) if op.phase == phase]
    return [sum(times[number] or 0 for number in inside) / 1e9 for times in timed.times]


def _seconds(timed: TimedPass, number: int) -> list[float]:
    return [time / 1e9 for times in timed.times if (time := times[number]) is not None]


def _index_of(kind: OpKind, index: int, kinds: Sequence[OpKind]) -> int | None:
    """The index of this kind in the document, tried at `index` first; None if the document does not have it."""
    if index < len(kinds) and kinds[index] == kind:
        return index
    return next((at for at, other in enumerate(kinds) if other == kind), None)
