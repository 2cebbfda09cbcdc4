"""The times of modules from clocked passes, without what the clock itself took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from msgspec.structs import replace

from assay.api.profile import figures
from assay.document.provenance import Figure, Measured
from assay.document.timing import ModuleTime, Timing
from assay.machine.samples import spread
from assay.timing.measuring import ClockedPasses
from assay.timing.module_clock import Spans


def timing(
    clocked: ClockedPasses, parents: Sequence[int | None], device: Mapping[int, tuple[float, float]] | None = None
) -> Timing:
    """The document's timing; `parents` are those of its modules. Self times and `outside` add up to `whole`.

    `device` has the seconds on an accelerator by module: of everything inside its calls, and of its own.

    What the clock adds to a call is the difference between clocked and bare passes at their fastest, spread over the
    calls. It falls into the self time of whoever made the call, and is taken off there.
    """
    calls = clocked.spans[0].calls if clocked.spans else 0
    added = max(min(clocked.clocked) - min(clocked.bare), 0) / calls if calls else 0.0
    corrected = [_without_clock(spans, added, parents) for spans in clocked.spans]
    passes = range(len(clocked.spans))
    wholes = [clocked.clocked[number] - added * calls for number in passes]
    scale = median(clocked.bare) / median(wholes) if wholes and median(wholes) > 0 else 1.0
    rows = [_row(corrected, device, index, scale) for index in range(len(parents))]
    whole = figures.of_seconds(clocked.bare)
    rows = _within(rows, whole.value or 0.0)
    inside = sum(row.self_s for row in rows if row is not None)
    outside = max((whole.value or 0.0) - inside, 0.0)
    return Timing(
        modules=rows,
        whole=whole,
        outside=Figure(outside, Measured(figures.CLOCK, len(passes))),
        overhead=figures.ratio(clocked.clocked, clocked.bare),
    )


def _within(rows: list[ModuleTime | None], whole_s: float) -> list[ModuleTime | None]:
    """Self times that together are no more than the pass: the sum of medians may exceed the median of sums."""
    inside = sum(row.self_s for row in rows if row is not None)
    if inside <= whole_s:
        return rows
    return [row if row is None else replace(row, self_s=row.self_s * whole_s / inside) for row in rows]


def _without_clock(spans: Spans, added: float, parents: Sequence[int | None]) -> dict[int, tuple[int, float, float]]:
    """Calls, total and self nanoseconds by module, the clock's share taken off."""
    inner: dict[int, int] = dict.fromkeys(spans.modules, 0)
    below: dict[int, int] = dict.fromkeys(spans.modules, 0)
    for module, spent in spans.modules.items():
        parent = _caller(module, parents, spans)
        if parent is not None:
            inner[parent] += spent.calls
        while parent is not None:
            below[parent] += spent.calls
            parent = _caller(parent, parents, spans)
    return {
        module: (
            spent.calls,
            max(spent.total_ns - added * below[module], 0.0),
            max(spent.own_ns - added * inner[module], 0.0),
        )
        for module, spent in spans.modules.items()
    }


def _caller(module: int, parents: Sequence[int | None], spans: Spans) -> int | None:
    """The nearest module above that was called itself; who really made a call is not kept."""
    parent = parents[module]
    while parent is not None and parent not in spans.modules:
        parent = parents[parent]
    return parent


def _row(
    passes: Sequence[dict[int, tuple[int, float, float]]],
    device: Mapping[int, tuple[float, float]] | None,
    index: int,
    scale: float,
) -> ModuleTime | None:
    seen = [spent[index] for spent in passes if index in spent]
    if not seen:
        return None
    totals = [total * scale / 1e9 for _, total, _ in seen]
    on_device = (None, None) if device is None else device.get(index, (0.0, 0.0))
    return ModuleTime(
        calls=seen[0][0],
        total_s=median(totals),
        self_s=median(own * scale / 1e9 for _, _, own in seen),
        spread_s=spread(totals),
        device_total_s=on_device[0],
        device_self_s=on_device[1],
    )
