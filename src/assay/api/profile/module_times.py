"""Times per module from clocked passes, corrected for the overhead of the clock."""

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
    """The timing of a document whose modules have these parents. Self times and `outside` add up to `whole`.

    `device` maps a module to its seconds on an accelerator: total time and self time.

    The overhead per call is the difference between the fastest clocked and the fastest bare pass, divided by the
    number of calls. It is part of the caller's self time, so it is subtracted there.
    """
    calls = clocked.spans[0].calls if clocked.spans else 0
    overhead_ns = max(min(clocked.clocked) - min(clocked.bare), 0) / calls if calls else 0.0
    corrected = [_without_clock(spans, overhead_ns, parents) for spans in clocked.spans]
    passes = range(len(clocked.spans))
    wholes = [clocked.clocked[number] - overhead_ns * calls for number in passes]
    scale = median(clocked.bare) / median(wholes) if wholes and median(wholes) > 0 else 1.0
    rows = [_row(corrected, device, index, scale) for index in range(len(parents))]
    whole = figures.of_seconds(clocked.bare)
    rows = _limited(rows, whole.value or 0.0)
    inside = sum(row.self_s for row in rows if row is not None)
    outside = max((whole.value or 0.0) - inside, 0.0)
    return Timing(
        modules=rows,
        whole=whole,
        outside=Figure(outside, Measured(figures.CLOCK, len(passes))),
        overhead=figures.ratio(clocked.clocked, clocked.bare),
    )


def _limited(rows: list[ModuleTime | None], whole_s: float) -> list[ModuleTime | None]:
    """The rows with self times scaled down to at most the pass: a sum of medians may exceed the median of sums."""
    inside = sum(row.self_s for row in rows if row is not None)
    if inside <= whole_s:
        return rows
    return [row if row is None else replace(row, self_s=row.self_s * whole_s / inside) for row in rows]


def _without_clock(
    spans: Spans, overhead_ns: float, parents: Sequence[int | None]
) -> dict[int, tuple[int, float, float]]:
    """Calls, total and self nanoseconds per module, with the overhead of the clock subtracted."""
    calls_made: dict[int, int] = dict.fromkeys(spans.modules, 0)
    calls_below: dict[int, int] = dict.fromkeys(spans.modules, 0)
    for module, span in spans.modules.items():
        parent = _caller(module, parents, spans)
        if parent is not None:
            calls_made[parent] += span.calls
        while parent is not None:
            calls_below[parent] += span.calls
            parent = _caller(parent, parents, spans)
    return {
        module: (
            span.calls,
            max(span.total_ns - overhead_ns * calls_below[module], 0.0),
            max(span.own_ns - overhead_ns * calls_made[module], 0.0),
        )
        for module, span in spans.modules.items()
    }


def _caller(module: int, parents: Sequence[int | None], spans: Spans) -> int | None:
    """The nearest ancestor that was called, taken as the caller because the real one is not recorded."""
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
    samples = [times[index] for times in passes if index in times]
    if not samples:
        return None
    totals = [total * scale / 1e9 for _, total, _ in samples]
    on_device = (None, None) if device is None else device.get(index, (0.0, 0.0))
    return ModuleTime(
        calls=samples[0][0],
        total_s=median(totals),
        self_s=median(own * scale / 1e9 for _, _, own in samples),
        spread_s=spread(totals),
        device_total_s=on_device[0],
        device_self_s=on_device[1],
    )
