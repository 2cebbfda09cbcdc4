"""Reports about traces: one trace, its call stacks, several passes or ranks of a model, two sides compared."""

from __future__ import annotations

from collections.abc import Sequence
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
from assay.trace.read.stacks import StackLine, Stacks, stack_lines
from assay.views.tables import Column, Table
from assay.views.text.amounts import percent
from assay.views.text.facts import facts_table, notes_table
from assay.views.text.report import Parts, Report, section
from assay.views.text.traces_tables import DIVISIONS, TraceOptions, duration, time_column


class _IdleRow(NamedTuple):
    device: str
    why: str
    time_ns: int


_SKIPPED = (Column("events", itemgetter(1), "right", units.exact), Column("why", itemgetter(0), shrinks=True))
_DEVICES: tuple[Column[DeviceTimes], ...] = (
    Column("device", lambda row: row.name),
    time_column("span", lambda row: row.span_ns),
    time_column("busy", lambda row: row.busy_ns),
    time_column("idle", lambda row: row.idle_ns),
    time_column("compute", lambda row: row.compute_ns),
    time_column("communication", lambda row: row.communication_ns, drops=True),
    time_column("hidden", lambda row: row.communication_hidden_ns, drops=True),
    time_column("copies", lambda row: row.copy_ns, drops=True),
    time_column("hidden", lambda row: row.copy_hidden_ns, drops=True),
    Column("streams", lambda row: row.streams, "right", units.exact, drops=True),
    Column("queue, mean", lambda row: row.queue_mean, "right", units.ratio, drops=True),
    Column("most", lambda row: row.queue_max, "right", units.exact, drops=True),
)
_IDLE: tuple[Column[_IdleRow], ...] = (
    Column("device", lambda row: row.device),
    Column("idle because", lambda row: row.why, shrinks=True),
    time_column("time", lambda row: row.time_ns),
)
_MEMORY: tuple[Column[MemoryTimeline], ...] = (
    Column("device", lambda row: row.device),
    Column("peak", lambda row: row.peak_bytes, "right", units.size),
    time_column("at", lambda row: row.peak_at_ns),
    Column("in layer", lambda row: row.peak_layer, shrinks=True),
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
    Column("behind", lambda row: row.behind, "right", percent),
    Column("verdict", lambda row: "straggler" if row.straggler else ""),
)


class _AcrossRow(NamedTuple):
    model: str
    layer: LayerAcross


_MODEL: Column[_AcrossRow] = Column("model", lambda row: row.model)
_ACROSS: tuple[Column[_AcrossRow], ...] = (
    Column("layer", lambda row: row.layer.name, shrinks=True, keeps=16),
    time_column("median", lambda row: row.layer.median_ns),
    time_column("spread ±", lambda row: row.layer.spread_ns),
    time_column("least", lambda row: row.layer.min_ns, drops=True),
    time_column("most", lambda row: row.layer.max_ns, drops=True),
    Column("seen in", lambda row: row.layer.seen_in, "right", units.exact, drops=True),
)
_IMBALANCE: tuple[Column[_AcrossRow], ...] = (
    Column("slowest rank", lambda row: row.layer.slowest, "right", units.exact),
    Column("imbalance", lambda row: row.layer.imbalance, "right", percent),
)
_CHANGES: tuple[Column[LayerChange], ...] = (
    Column("layer", lambda row: row.name, shrinks=True, keeps=16),
    time_column("before", lambda row: row.before_ns),
    time_column("after", lambda row: row.after_ns),
    Column("change", lambda row: row.change_ns, "right", lambda value: _signed(value)),
    Column("share", lambda row: _relative(row), "right", percent),
    time_column("noise ±", lambda row: row.noise_ns),
    Column("verdict", lambda row: row.verdict),
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
    """Everything a person is told about one trace, broken down as `options` say."""
    division = DIVISIONS[options.by]
    rows, data = division.table(trace, options), division.data(trace, options)
    parts: Parts = [
        headline(trace),
        facts_table(_facts(trace), "what"),
        division.title,
        rows if rows.rows or rows.footer else notes_table(["none in this trace"]),
        *section("Accelerators", Table(_DEVICES, trace.devices)),
        *section("Why they idled", Table(_IDLE, _idle(trace))),
        *section("Memory", Table(_MEMORY, trace.memory)),
        *section("Events not taken as they stand", Table(_SKIPPED, list(trace.skipped.items()))),
        *section("Notes", notes_table(trace.notes)),
    ]
    return Report(parts, data)


def headline(trace: Trace) -> str:
    """What was read, in one line."""
    model = f"{trace.model_name}, " if trace.model_name else ""
    rank = f"rank {trace.rank}, " if trace.rank is not None else ""
    cut = "" if trace.complete else "; cut off, what was there was read"
    return f"{trace.path}: {model}{rank}{units.exact(trace.events)} events{cut}"


def _facts(trace: Trace) -> list[tuple[str, str]]:
    threads = f" on {len(trace.threads)} threads" if len(trace.threads) > 1 else ""
    facts = [("wall time", duration(trace.wall_ns)), ("CPU", f"{duration(trace.cpu_ns)}{threads}")]
    if trace.gpu_ns is not None:
        given = sum((layer.gpu_self_ns or 0) + (layer.backward_gpu_ns or 0) for layer in trace.layers)
        facts.append(("GPU", f"{duration(trace.gpu_ns)}, {units.share(given, trace.gpu_ns)} given to layers"))
    if trace.steps:
        times = sorted(step.cpu_ns for step in trace.steps)
        middle = times[len(times) // 2]
        facts.append(("steps", f"{len(times)}, {duration(middle)} in the middle, {duration(times[-1])} at most"))
    return facts


def _idle(trace: Trace) -> list[_IdleRow]:
    rows = [_IdleRow(one.name, why, time) for one in trace.devices for why, time in one.idle_causes.items() if time]
    return sorted(rows, key=lambda row: (row.device, -row.time_ns))


def sets_report(sets: Sequence[TraceSet], options: TraceOptions = TraceOptions()) -> Report:  # noqa: B008  it is frozen
    """Layers over passes and ranks, a section for each model; ranks that hold the others up are named."""
    parts: Parts = []
    rows: list[_AcrossRow] = []
    for each in sets:
        name = each.model_name or "traces"
        kept, rest = _cut(sorted(each.layers, key=lambda row: -row.median_ns), options.top)
        columns = (*_ACROSS, *_IMBALANCE) if each.ranks else _ACROSS
        parts.append(f"{name}: {len(each.paths)} traces, own {_TIMES[each.time]} of layers")
        parts.append(Table(columns, [_AcrossRow(name, row) for row in kept], rest))
        parts += section("Ranks", Table(_RANKS, each.ranks)) + section("Notes", notes_table(each.notes))
        rows += [_AcrossRow(name, row) for row in each.layers]
    return Report(parts, Table((_MODEL, *_ACROSS, *_IMBALANCE), rows))


def diff_report(diff: TraceDiff, options: TraceOptions = TraceOptions()) -> Report:  # noqa: B008  it is frozen
    """What changed, the largest change first."""
    kept, rest = _cut(diff.layers, options.top)
    table = Table(_CHANGES, kept, [*rest, diff.total])
    title = f"Own {_TIMES[diff.time]} of layers: {_named(diff.before)} → {_named(diff.after)}"
    parts: Parts = [title, table, *section("Notes", notes_table(diff.notes))]
    return Report(parts, Table(_CHANGES, [*diff.layers, diff.total]))


def stacks_report(stacks: Stacks, path: str, options: TraceOptions) -> Report:
    """The paths with the most time."""
    lines = stack_lines(stacks, options.sort)
    data = Table(_STACKS, lines).first(options.top)
    others = lines[len(data.rows) :]
    rest = {"self_ns": sum(line.self_ns for line in others), "stack": f"{len(others)} others"}
    columns = [column for column in _STACKS if column is not _GPU or stacks.gpu_ns is not None]
    return Report([f"{path}: {len(lines)} stacks", Table(columns, data.rows, [rest] if others else [])], data)


def _relative(row: LayerChange) -> float | None:
    return row.change_ns / row.before_ns if row.before_ns and row.after_ns is not None else None


def _named(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{len(paths)} passes from {paths[0]}"


def _cut(rows: Sequence[Any], top: int | None) -> tuple[Sequence[Any], list[dict[str, str]]]:
    """The first rows, and one that stands for the others."""
    left = len(rows) - len(rows[:top])
    return rows[:top], [{"layer": f"{left} others"}] if left else []


def _signed(value: int | None) -> str:
    return f"+{duration(value)}" if value is not None and value > 0 else duration(value)
