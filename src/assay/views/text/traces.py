"""Trace reports: one trace, its call stacks, several passes or ranks of a model, and a comparison of two traces."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from assay import units
from assay.document.trace import (
    DeviceTimes,
    LayerAcross,
    LayerChange,
    MemoryTimeline,
    RankTimes,
    Trace,
    TraceDiff,
    TraceSet,
)
from assay.findings.brief_trace import diff_brief, set_brief, trace_brief, trace_findings
from assay.messages import plural
from assay.trace.read.stacks import StackLine, Stacks, stack_lines
from assay.views.tables import Column, Table, percent
from assay.views.text.brief import brief_parts
from assay.views.text.facts import facts_table, notes_table
from assay.views.text.report import Parts, Report, section
from assay.views.text.traces_folded import FoldedAcross, folded_across, folded_changes
from assay.views.text.traces_tables import BREAKDOWNS, TraceOptions, duration, time_column


class _IdleRow(NamedTuple):
    device: str
    cause: str
    time_ns: int


_SKIPPED = (Column("events", itemgetter(1), "right", units.exact), Column("reason", itemgetter(0), shrinks=True))
_DEVICES: tuple[Column[DeviceTimes], ...] = (
    Column("device", lambda row: row.name),
    time_column("span", lambda row: row.span_ns),
    time_column("busy", lambda row: row.busy_ns),
    time_column("idle", lambda row: row.idle_ns),
    time_column("compute", lambda row: row.compute_ns),
    time_column("communication", lambda row: row.communication_ns, drops=True),
    time_column("compute overlapped", lambda row: row.communication_hidden_ns, drops=True),
    time_column("copies", lambda row: row.copy_ns, drops=True),
    time_column("copies overlapped", lambda row: row.copy_hidden_ns, drops=True),
    Column("streams", lambda row: row.streams, "right", units.exact, drops=True),
    Column("queue mean", lambda row: row.queue_mean, "right", units.ratio, drops=True),
    Column("queue max", lambda row: row.queue_max, "right", units.exact, drops=True),
)
_IDLE: tuple[Column[_IdleRow], ...] = (
    Column("device", lambda row: row.device),
    Column("cause", lambda row: row.cause, shrinks=True),
    time_column("time", lambda row: row.time_ns),
)
_MEMORY: tuple[Column[MemoryTimeline], ...] = (
    Column("device", lambda row: row.device),
    Column("peak", lambda row: row.peak_bytes, "right", units.size),
    time_column("peak at", lambda row: row.peak_at_ns),
    Column("layer", lambda row: row.peak_layer, shrinks=True),
    Column("allocated", lambda row: row.allocated_bytes, "right", units.size),
    Column("freed", lambda row: row.freed_bytes, "right", units.size),
)
_RANKS: tuple[Column[RankTimes], ...] = (
    Column("rank", lambda row: row.rank, "right", units.exact),
    Column("passes", lambda row: row.passes, "right", units.exact, drops=True),
    time_column("wall", lambda row: row.wall_ns),
    time_column("CPU", lambda row: row.cpu_ns, drops=True),
    time_column("GPU", lambda row: row.gpu_ns),
    time_column("communication", lambda row: row.communication_ns),
    time_column("working", lambda row: row.working_ns),
    Column("behind median", lambda row: row.behind, "right", percent),
    Column("verdict", lambda row: "straggler" if row.straggler else ""),
)


_SET_ORDERS: dict[str, Callable[[LayerAcross], Any]] = {
    "median": lambda row: -row.median_ns,
    "max": lambda row: -row.max_ns,
    "name": lambda row: row.name,
}


class _AcrossRow(NamedTuple):
    model: str
    layer: LayerAcross


_MODEL: Column[_AcrossRow] = Column("model", lambda row: row.model)
_ACROSS: tuple[Column[_AcrossRow], ...] = (
    Column("layer", lambda row: row.layer.name, shrinks=True, keeps=16, cuts="middle"),
    time_column("median", lambda row: row.layer.median_ns),
    time_column("spread", lambda row: row.layer.spread_ns, "spread ±"),
    time_column("min", lambda row: row.layer.min_ns, "least", drops=True),
    time_column("max", lambda row: row.layer.max_ns, "most", drops=True),
    Column("traces", lambda row: row.layer.seen_in, "right", units.exact, drops=True, name="seen in"),
)
_IMBALANCE: tuple[Column[_AcrossRow], ...] = (
    Column("slowest rank", lambda row: row.layer.slowest, "right", units.exact),
    Column("imbalance", lambda row: row.layer.imbalance, "right", percent),
)
_ODD: Column[_AcrossRow] = Column("note", lambda row: _odd(row.layer), shrinks=True, keeps=-8)
_CHANGES: tuple[Column[LayerChange], ...] = (
    Column("layer", lambda row: row.name, shrinks=True, keeps=16, cuts="middle"),
    time_column("before", lambda row: row.before_ns),
    time_column("after", lambda row: row.after_ns),
    Column("change", lambda row: row.change_ns, "right", lambda value: _signed(value, duration)),
    Column("relative", lambda row: _relative(row), "right", lambda value: _signed(value, percent), name="share"),
    time_column("noise", lambda row: row.noise_ns, "noise ±"),
    Column("verdict", lambda row: row.verdict, show=lambda verdict: _verdict_text(verdict)),
)
_GPU: Column[StackLine] = time_column("GPU", lambda line: line.gpu_ns, "gpu_ns")
_STACKS: tuple[Column[StackLine], ...] = (
    time_column("self", lambda line: line.self_ns, "self_ns"),
    time_column("total", lambda line: line.total_ns, "total_ns"),
    _GPU,
    Column("calls", lambda line: line.calls, "right", units.exact),
    Column("stack", lambda line: " › ".join(line.stack), shrinks=True),
)

_TIMES = {"cpu": "CPU time", "gpu": "GPU time without communication"}


def trace_report(trace: Trace, options: TraceOptions = TraceOptions()) -> Report:  # noqa: B008  it is frozen
    """The report on one trace; `options.by` selects the breakdown, which CSV and JSON lines contain."""
    division = BREAKDOWNS[options.by]
    rows, data = division.table(trace, options), division.data(trace, options)
    brief = trace_brief(trace, trace_findings([trace]), next_step=shlex.join(["assay", "check", trace.path]))
    parts: Parts = [
        *brief_parts(brief),
        facts_table(_facts(trace)),
        division.title,
        rows if rows.rows or rows.footer else notes_table(["none in this trace"]),
        *section("Accelerators", Table(_DEVICES, trace.devices)),
        *section("Idle time by cause", Table(_IDLE, _idle(trace))),
        *section("Memory", Table(_MEMORY, trace.memory)),
        *section("Skipped or repaired events", Table(_SKIPPED, list(trace.skipped.items()))),
        *section("Notes", notes_table(trace.notes)),
    ]
    return Report(parts, data)


def _facts(trace: Trace) -> list[tuple[str, str]]:
    threads = f" on {len(trace.threads)} threads" if len(trace.threads) > 1 else ""
    facts = [("CPU", f"{duration(trace.cpu_ns)}{threads}")]
    if trace.gpu_ns is not None:
        in_layers = sum((layer.gpu_self_ns or 0) + (layer.backward_gpu_ns or 0) for layer in trace.layers)
        facts.append(
            ("GPU", f"{duration(trace.gpu_ns)}, {units.share(in_layers, trace.gpu_ns)} attributed to layers")
        )
    if trace.steps:
        times = sorted(step.cpu_ns for step in trace.steps)
        median = times[len(times) // 2]
        facts.append(("steps", f"{len(times)}, median {duration(median)}, max {duration(times[-1])}"))
    return facts


def _idle(trace: Trace) -> list[_IdleRow]:
    rows = [
        _IdleRow(one.name, cause, time) for one in trace.devices for cause, time in one.idle_causes.items() if time
    ]
    return sorted(rows, key=lambda row: (row.device, -row.time_ns))


def sets_report(
    sets: Sequence[TraceSet],
    traces: Sequence[Trace],
    options: TraceOptions = TraceOptions(),  # noqa: B008  it is frozen
) -> Report:
    """Layer times across passes and ranks of `traces`, one section per model, with stragglers marked."""
    parts: Parts = []
    rows: list[_AcrossRow] = []
    for each in sets:
        members = [trace for trace in traces if trace.path in each.paths]
        parts += brief_parts(set_brief(each, members, trace_findings(members)))
        parts += across_parts(each, options)
        parts += section("Ranks", ranks_table(each)) + section("Notes", notes_table(each.notes))
        rows += _across_rows(each, each.layers)
    return Report(parts, Table((_MODEL, *_ACROSS, *_IMBALANCE), rows))


def across_parts(traces: TraceSet, options: TraceOptions) -> Parts:
    """The layers of several traces of one model."""
    layers = traces.layers if options.full else folded_across(traces.layers)
    kept, rest = _cut(sorted(layers, key=_SET_ORDERS[options.sort or "median"]), options.top)
    columns = (*_ACROSS, *(_IMBALANCE if traces.ranks else ()))
    columns = (*columns, _ODD) if any(_odd(row) for row in kept) else columns
    return [f"Layers by self {_TIMES[traces.time]}", Table(columns, _across_rows(traces, kept), rest)]


def ranks_table(traces: TraceSet) -> Table:
    """One row per rank; none with a single rank."""
    return Table(_RANKS, traces.ranks)


def _across_rows(traces: TraceSet, layers: Sequence[LayerAcross]) -> list[_AcrossRow]:
    return [_AcrossRow(traces.model_name or "traces", layer) for layer in layers]


def diff_report(diff: TraceDiff, options: TraceOptions = TraceOptions()) -> Report:  # noqa: B008  it is frozen
    """The layers of two traces compared, the largest change first; CSV and JSON lines keep the order of `diff`."""
    parts = [*brief_parts(diff_brief(diff)), *change_parts(diff, options), *section("Notes", notes_table(diff.notes))]
    return Report(parts, Table(_CHANGES, [*diff.layers, diff.total]))


def change_parts(diff: TraceDiff, options: TraceOptions) -> Parts:
    """The layers of two traces, the largest change first, and the change of the whole pass."""
    changes = diff.layers if options.full else folded_changes(diff.layers)
    kept, rest = _cut(sorted(changes, key=lambda row: -abs(row.change_ns)), options.top)
    title = f"Self {_TIMES[diff.time]} of layers: {_paths_text(diff.before)} → {_paths_text(diff.after)}"
    return [title, Table(_CHANGES, kept, [*rest, diff.total])]


def stacks_report(stacks: Stacks, path: str, options: TraceOptions) -> Report:
    """The call stacks with the most time."""
    lines = stack_lines(stacks, options.sort)
    data = Table(_STACKS, lines).first(options.top)
    omitted = lines[len(data.rows) :]
    rest = {"self_ns": sum(line.self_ns for line in omitted), "stack": f"({len(omitted)} more)"}
    columns = [column for column in _STACKS if column is not _GPU or stacks.gpu_ns is not None]
    table = Table(columns, data.rows, [rest] if omitted else [])
    return Report([f"{path}: {plural(len(lines), 'stack')}", table], data)


def _odd(layer: LayerAcross) -> str:
    return layer.note if isinstance(layer, FoldedAcross) else ""


def _relative(row: LayerChange) -> float | None:
    return row.change_ns / row.before_ns if row.before_ns and row.after_ns is not None else None


def _verdict_text(verdict: str | None) -> str:
    """The verdict in words; empty for the row that counts the layers not shown."""
    return "not significant" if verdict == "same" else verdict or ""


def _paths_text(paths: Sequence[str]) -> str:
    """`traces/a.json`, or `traces (4 passes)` for several files."""
    if len(paths) == 1:
        return paths[0]
    directories = dict.fromkeys(os.path.dirname(path) or os.curdir for path in paths)
    return f"{', '.join(directories)} ({len(paths)} passes)"


def _cut(rows: Sequence[Any], top: int | None) -> tuple[Sequence[Any], list[dict[str, str]]]:
    """The first `top` rows, and a footer row with the number of omitted ones."""
    omitted = len(rows) - len(rows[:top])
    return rows[:top], [{"layer": f"({omitted} more)"}] if omitted else []


def _signed(value: Any, show: Callable[[Any], str]) -> str:
    """The formatted value, with a plus sign if it is positive."""
    return f"+{show(value)}" if value is not None and value > 0 else show(value)
