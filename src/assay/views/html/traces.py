"""Traces for the page: layers, steps, kernels, idle time and memory of each, and ranks beside each other."""

from __future__ import annotations

import os
from collections.abc import Iterator

from assay.document.trace import MemoryTimeline, Trace
from assay.trace.read.across import trace_sets
from assay.views.html.convert import block_of, blocks_of
from assay.views.html.page import AnyBlock, Bar, BarPart, BarsBlock, Line, LinesBlock, NotesBlock, PageAxis, PageView
from assay.views.html.subject import Subject
from assay.views.tables import printable
from assay.views.text.facts import notes_table
from assay.views.text.report import section
from assay.views.text.traces import across_parts, ranks_table, trace_report
from assay.views.text.traces_tables import BREAKDOWNS, TraceOptions

_MAX_TRACES = 8
"""Traces that are shown one by one; more are only compared."""
_OTHERS = ("op", "kernel", "step")


def traces_view(subject: Subject) -> PageView:
    """Every trace of the document."""
    traces = subject.document.traces
    if not traces:
        how = "Run `assay run -- python SCRIPT` to record passes, then `assay report TRACE`."
        return PageView("traces", "Traces", [], f"This document has no traces. {how}")
    blocks: list[AnyBlock] = []
    if len(traces) > 1:
        for number, each in enumerate(trace_sets(traces)):
            parts = [*across_parts(each, TraceOptions()), *section("Ranks", ranks_table(each))]
            blocks += blocks_of([*parts, *section("Notes", notes_table(each.notes))], f"set{number}-")
    for number, trace in enumerate(traces[:_MAX_TRACES]):
        blocks += _trace_blocks(trace, f"trace{number}-")
    if len(traces) > _MAX_TRACES:
        blocks.append(NotesBlock(lines=[f"{len(traces) - _MAX_TRACES} more traces are only in the comparison above"]))
    return PageView("traces", "Traces", blocks)


def _trace_blocks(trace: Trace, prefix: str) -> Iterator[AnyBlock]:
    """The layers of a trace, then its steps, ops and kernels, idle time and memory."""
    name = printable(trace.model_name or os.path.basename(trace.path) or "trace")
    yield from _idle_bars(trace, name)
    report = trace_report(trace, TraceOptions(full=False))
    first = next(at for at, part in enumerate(report.parts) if part == BREAKDOWNS["layer"].title)
    layers = report.parts[first:]
    yield from blocks_of([f"{name}: {str(layers[0])[:1].lower()}{str(layers[0])[1:]}", *layers[1:]], prefix)
    for by in _OTHERS:
        table = BREAKDOWNS[by].table(trace, TraceOptions(by=by))
        if table.rows:
            yield block_of(table, f"{prefix}{by}", f"{name}: {BREAKDOWNS[by].title.lower()}")
    for memory in trace.memory:
        yield from _memory_lines(memory, name)


def _idle_bars(trace: Trace, name: str) -> Iterator[AnyBlock]:
    """The time of each accelerator: busy, and idle by what the next kernel waited for."""
    bars = [
        Bar(
            printable(one.name),
            one.span_ns / 1e9,
            [
                BarPart("busy", one.busy_ns / 1e9),
                *(BarPart(cause, ns / 1e9) for cause, ns in one.idle_causes.items() if ns),
            ],
        )
        for one in trace.devices
    ]
    if bars:
        idle, span = sum(one.idle_ns for one in trace.devices), sum(one.span_ns for one in trace.devices)
        caption = (
            f"{100 * idle / span:.1f} % of the time between the first and the last kernel is idle." if span else ""
        )
        yield BarsBlock(title=f"{name}: accelerators", caption=caption, unit="seconds", method="measured", bars=bars)


def _memory_lines(memory: MemoryTimeline, name: str) -> Iterator[AnyBlock]:
    if len(memory.timeline) < 2:
        return
    yield LinesBlock(
        title=f"{name}: memory of {printable(memory.device)}",
        x=PageAxis("time", "seconds", [at / 1e9 for at, _ in memory.timeline]),
        series=[Line("allocated", [float(size) for _, size in memory.timeline], method="measured")],
        unit="bytes",
    )
