"""The times of operations from clocked passes: by kind, and by module for the backward pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from assay.document.profile import KindTime
from assay.document.rows import Call, OpKind
from assay.machine.samples import spread
from assay.timing.measuring import TimedPass


def kind_times(timed: TimedPass, kinds: Sequence[OpKind]) -> list[KindTime | None]:
    """The forward operations' times in the order of `kinds`; None for a kind that did not run here."""
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
        place = _place(timed.shown.kinds[index], index, kinds)
        if place is not None:
            rows[place] = KindTime(counts[index], median(seconds), totals[index], spread(seconds) or 0.0)
    return rows


def backward_times(timed: TimedPass, calls: Sequence[Call], modules: int) -> tuple[list[float | None], float]:
    """Backward seconds of each module's own operations, and of those that serve none."""
    spent: dict[int, float] = defaultdict(float)
    outside = 0.0
    for number, op in enumerate(timed.shown.ops):
        seconds = _seconds(timed, number)
        if op.phase != "backward" or not seconds:
            continue
        if 0 <= op.call < len(calls):
            spent[calls[op.call].module] += median(seconds)
        else:
            outside += median(seconds)
    return [spent.get(index) for index in range(modules)], outside


def device_times(timed: TimedPass) -> dict[int, tuple[float, float]]:
    """Kernel seconds of the forward pass by module: everything inside its calls, and its own operations."""
    calls = timed.shown.calls
    own: dict[int, float] = defaultdict(float)
    total: dict[int, float] = defaultdict(float)
    for number, op in enumerate(timed.shown.ops):
        seconds = _seconds(timed, number)
        if op.phase != "forward" or not seconds or not 0 <= op.call < len(calls):
            continue
        spent = median(seconds)
        own[calls[op.call].module] += spent
        for module in _modules_around(op.call, calls):
            total[module] += spent
    return {module: (total[module], own[module]) for module in total}


def _modules_around(call: int | None, calls: Sequence[Call]) -> set[int]:
    """The modules of a call and of all calls it happened in, each once."""
    found = set()
    while call is not None and call >= 0:
        found.add(calls[call].module)
        call = calls[call].parent
    return found


def whole_passes(timed: TimedPass, phase: str) -> list[float]:
    """The sum of one phase's operation times in each pass, in seconds."""
    inside = [number for number, op in enumerate(timed.shown.ops) if op.phase == phase]
    return [sum(times[number] or 0 for number in inside) / 1e9 for times in timed.times]


def _seconds(timed: TimedPass, number: int) -> list[float]:
    return [time / 1e9 for times in timed.times if (time := times[number]) is not None]


def _place(kind: OpKind, index: int, kinds: Sequence[OpKind]) -> int | None:
    """Where the document has this kind: almost always in the same place."""
    if index < len(kinds) and kinds[index] == kind:
        return index
    return next((place for place, other in enumerate(kinds) if other == kind), None)
