"""Reports about traces: one trace, several passes or ranks of a model, two sides compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay import units
from assay.document.trace import Trace, TraceDiff, TraceSet
from assay.views.tables import Column, Table
from assay.views.text.amounts import percent
from assay.views.text.report import Report
from assay.views.text.traces_tables import DIVISIONS, Shown, duration

_FACTS = (Column("what"), Column("value", shrinks=True))
_SKIPPED = (Column("events", "right", units.exact), Column("why", shrinks=True))
_NOTE = (Column("note", shrinks=True),)
_DEVICES = (
    Column("device"),
    Column("span", "right", duration),
    Column("busy", "right", duration),
    Column("idle", "right", duration),
    Column("compute", "right", duration),
    Column("communication", "right", duration, drops=True),
    Column("hidden", "right", duration, drops=True),
    Column("copies", "right", duration, drops=True),
    Column("hidden", "right", duration, drops=True),
    Column("streams", "right", units.exact, drops=True),
    Column("queue, mean", "right", units.ratio, drops=True),
    Column("most", "right", units.exact, drops=True),
)
_IDLE = (Column("device"), Column("idle because", shrinks=True), Column("time", "right", duration))
_MEMORY = (
    Column("device"),
    Column("peak", "right", units.size),
    Column("at", "right", duration),
    Column("in layer", shrinks=True),
    Column("allocated", "right", units.size),
    Column("freed", "right", units.size),
)
_RANKS = (
    Column("rank", "right", units.exact),
    Column("passes", "right", units.exact, drops=True),
    Column("wall", "right", duration),
    Column("CPU", "right", duration, drops=True),
    Column("GPU", "right", duration),
    Column("communication", "right", duration),
    Column("working", "right", duration),
    Column("behind", "right", percent),
    Column("verdict"),
)
_ACROSS = (
    Column("layer", shrinks=True, keeps=16),
    Column("median", "right", duration),
    Column("spread ±", "right", duration),
    Column("least", "right", duration, drops=True),
    Column("most", "right", duration, drops=True),
    Column("seen in", "right", units.exact, drops=True),
)
_IMBALANCE = (Column("slowest rank", "right", units.exact), Column("imbalance", "right", percent))
_CHANGES = (
    Column("layer", shrinks=True, keeps=16),
    Column("before", "right", duration),
    Column("after", "right", duration),
    Column("change", "right", lambda value: _signed(value)),
    Column("share", "right", percent),
    Column("noise ±", "right", duration),
    Column("verdict"),
)

_TIMES = {"cpu": "CPU time", "gpu": "GPU time without communication"}


def trace_report(trace: Trace, shown: Shown = Shown()) -> Report:  # noqa: B008  it is frozen
    """Everything a person is told about one trace, divided as `shown` says."""
    division = DIVISIONS[shown.by]
    rows, data = division.table(trace, shown), division.data(trace, shown)
    parts: list[str | Table] = [headline(trace), Table(_FACTS, _facts(trace), bare=True)]
    for title, table in (
        (division.title, rows),
        ("Accelerators", Table(_DEVICES, [_device(device) for device in trace.devices])),
        ("Why they idled", Table(_IDLE, _idle(trace))),
        ("Memory", Table(_MEMORY, [_memory(row) for row in trace.memory])),
        ("Events not taken as they stand", Table(_SKIPPED, [[count, why] for why, count in trace.skipped.items()])),
        ("Notes", Table(_NOTE, [[note] for note in trace.notes], bare=True)),
    ):
        if table.rows or table.footer:
            parts += [title, table]
        elif title == division.title:
            parts += [title, Table(_NOTE, [["none in this trace"]], bare=True)]
    return Report(parts, data)


def headline(trace: Trace) -> str:
    """What was read, in one line."""
    model = f"{trace.model_name}, " if trace.model_name else ""
    rank = f"rank {trace.rank}, " if trace.rank is not None else ""
    cut = "" if trace.complete else "; cut off, what was there was read"
    return f"{trace.path}: {model}{rank}{units.exact(trace.events)} events{cut}"


def _facts(trace: Trace) -> list[list[Any]]:
    threads = f" on {len(trace.threads)} threads" if len(trace.threads) > 1 else ""
    facts: list[list[Any]] = [["wall time", duration(trace.wall_ns)], ["CPU", f"{duration(trace.cpu_ns)}{threads}"]]
    if trace.gpu_ns is not None:
        given = sum((layer.gpu_self_ns or 0) + (layer.backward_gpu_ns or 0) for layer in trace.layers)
        facts.append(["GPU", f"{duration(trace.gpu_ns)}, {units.share(given, trace.gpu_ns)} given to layers"])
    if trace.steps:
        times = sorted(step.cpu_ns for step in trace.steps)
        middle = times[len(times) // 2]
        facts.append(["steps", f"{len(times)}, {duration(middle)} in the middle, {duration(times[-1])} at most"])
    return facts


def _device(row: Any) -> list[Any]:
    return [
        row.name,
        row.span_ns,
        row.busy_ns,
        row.idle_ns,
        row.compute_ns,
        row.communication_ns,
        row.communication_hidden_ns,
        row.copy_ns,
        row.copy_hidden_ns,
        row.streams,
        row.queue_mean,
        row.queue_max,
    ]


def _idle(trace: Trace) -> list[list[Any]]:
    rows = [[device.name, why, time] for device in trace.devices for why, time in device.idle_causes.items()]
    return sorted((row for row in rows if row[2]), key=lambda row: (row[0], -row[2]))


def _memory(row: Any) -> list[Any]:
    return [row.device, row.peak_bytes, row.peak_at_ns, row.peak_layer, row.allocated_bytes, row.freed_bytes]


def sets_report(sets: Sequence[TraceSet], shown: Shown = Shown()) -> Report:  # noqa: B008  it is frozen
    """Layers over passes and ranks, a section for each model; ranks that hold the others up are named."""
    parts: list[str | Table] = []
    rows: list[list[Any]] = []
    for each in sets:
        kept, others = _cut(sorted(each.layers, key=lambda row: -row.median_ns), shown.top)
        columns = (*_ACROSS, *_IMBALANCE) if each.ranks else _ACROSS
        table = Table(columns, [_across(row, bool(each.ranks)) for row in kept], _others(others, len(columns)))
        name = each.model_name or "traces"
        parts.append(f"{name}: {len(each.paths)} traces, own {_TIMES[each.time]} of layers")
        parts.append(table)
        if each.ranks:
            parts += ["Ranks", Table(_RANKS, [_rank(row) for row in each.ranks])]
        if each.notes:
            parts += ["Notes", Table(_NOTE, [[note] for note in each.notes], bare=True)]
        rows += [[name, *_across(row, True)] for row in each.layers]
    return Report(parts, Table((Column("model"), *_ACROSS, *_IMBALANCE), rows))


def _across(row: Any, ranked: bool) -> list[Any]:
    own = [row.name, row.median_ns, row.spread_ns, row.min_ns, row.max_ns, row.seen_in]
    return [*own, row.slowest, row.imbalance] if ranked else own


def _rank(row: Any) -> list[Any]:
    return [
        row.rank,
        row.passes,
        row.wall_ns,
        row.cpu_ns,
        row.gpu_ns,
        row.communication_ns,
        row.working_ns,
        row.behind,
        "straggler" if row.straggler else "",
    ]


def diff_report(diff: TraceDiff, shown: Shown = Shown()) -> Report:  # noqa: B008  it is frozen
    """What changed, the largest change first."""
    kept, others = _cut(diff.layers, shown.top)
    total = _change(diff.total)
    table = Table(_CHANGES, [_change(row) for row in kept], [*_others(others, len(_CHANGES)), total])
    title = f"Own {_TIMES[diff.time]} of layers: {_named(diff.before)} → {_named(diff.after)}"
    parts: list[str | Table] = [title, table]
    if diff.notes:
        parts += ["Notes", Table(_NOTE, [[note] for note in diff.notes], bare=True)]
    return Report(parts, Table(_CHANGES, [_change(row) for row in (*diff.layers, diff.total)]))


def _change(row: Any) -> list[Any]:
    share = row.change_ns / row.before_ns if row.before_ns and row.after_ns is not None else None
    return [row.name, row.before_ns, row.after_ns, row.change_ns, share, row.noise_ns, row.verdict]


def _named(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{len(paths)} passes from {paths[0]}"


def _cut(rows: Sequence[Any], top: int | None) -> tuple[Sequence[Any], int]:
    return (rows, 0) if top is None else (rows[:top], max(0, len(rows) - top))


def _others(count: int, width: int) -> list[list[Any]]:
    return [[f"{count} others", *[None] * (width - 1)]] if count else []


def _signed(value: int | None) -> str:
    return f"+{duration(value)}" if value is not None and value > 0 else duration(value)
