"""The profile report: times of the pass, its modules and ops, memory, the training step and sweeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from assay import units
from assay.analysis.achieved import Achieved
from assay.analysis.devices import Device
from assay.analysis.name_ranges import FoldedName, fold_rows, odd_one, odd_text
from assay.analysis.parameters import sum_if_all_known
from assay.analysis.time_split import TimeRow, time_split
from assay.document import tree
from assay.document.document import Document
from assay.document.profile import LARGEST_SEARCHED, Profile, Sweep, SweepPoint, ThreadPoint
from assay.document.provenance import Figure
from assay.document.rows import Module, OpKind
from assay.document.timing import ModuleTime, Timing
from assay.document.tree import modules_around
from assay.messages import plural
from assay.views.tables import Column, Row, Table, percent
from assay.views.text.amounts import part_of
from assay.views.text.energy import energy_facts, energy_table, energy_title, system_table
from assay.views.text.facts import notes_table
from assay.views.text.figures import FigureFact, bottleneck, fact, figures_table, range_text
from assay.views.text.partial_report import marked
from assay.views.text.profile_memory import memory_parts
from assay.views.text.report import Parts, Report, section
from assay.views.text.roofline_plot import roofline_parts

TOP = 15
"""Rows per table unless `top` is given; CSV and JSON contain all rows."""


class _Execution(NamedTuple):
    """One executed op and its own time."""

    number: int
    module: str
    kind: OpKind
    seconds: float | None
    share: float | None
    flops: int | None


class _ModuleRow(NamedTuple):
    """A module that was called, and its time."""

    module: Module
    time: ModuleTime
    backward_s: float | None
    flops: int | None
    rated_s: float | None
    """The time that FLOP/s use: on the device if it was timed, CPU time if the machine was busy; None if unknown."""
    note: str | None = None

    @property
    def flops_per_s(self) -> float | None:
        return part_of(self.flops, self.rated_s)


def _note(of: Callable[[Row], str | None]) -> Column[Row]:
    """A column of notes, which `without_empty` removes if no row has one."""
    return Column("note", of, show=lambda note: note or "", shrinks=True, keeps=-8)


_MODULES: tuple[Column[_ModuleRow], ...] = (
    Column("module", lambda row: tree.path_text(row.module.path), shrinks=True, keeps=12, cuts="middle"),
    Column("class", lambda row: row.module.class_name, shrinks=True, drops=True),
    Column("calls", lambda row: row.time.calls, "right", units.exact),
    Column("total", lambda row: row.time.total_s, "right", units.seconds, name="total s"),
    Column("low", lambda row: row.time.low_s, "right", units.seconds, drops=True, name="total low s"),
    Column("high", lambda row: row.time.high_s, "right", units.seconds, drops=True, name="total high s"),
    Column("self", lambda row: row.time.self_s, "right", units.seconds, name="self s"),
    Column("device total", lambda row: row.time.device_total_s, "right", units.seconds, name="device total s"),
    Column("device self", lambda row: row.time.device_self_s, "right", units.seconds, name="device self s"),
    Column("gap", lambda row: row.time.gap_s, "right", units.seconds, drops=True, name="gap s"),
    Column("self share", lambda row: row.time.self_share, "right", percent, bar=True),
    Column("backward", lambda row: row.backward_s, "right", units.seconds, drops=True, name="backward s"),
    Column("FLOPs", lambda row: row.flops, "right", units.count, drops=True),
    Column("FLOP/s", lambda row: row.flops_per_s, "right", units.count, drops=True),
)
_WHERE: tuple[Column[TimeRow], ...] = (
    Column("module", lambda row: _where_name(row), shrinks=True, keeps=12, cuts="middle"),
    Column("class", lambda row: row.class_name, shrinks=True, cuts="end", drops=1),
    Column("share", lambda row: row.share, "right", percent, bar=True),
    Column("time", lambda row: row.seconds, "right", units.seconds),
    _note(lambda row: odd_text(row.name, *row.odd) if row.odd else None),
)
_OPS: tuple[Column[Achieved], ...] = (
    Column("op", lambda row: row.name, show=units.op, shrinks=True, cuts="middle"),
    Column("inputs", lambda row: units.shapes(row.shapes), shrinks=True, keeps=-8),
    Column("count", lambda row: row.count, "right", units.exact),
    Column("each", lambda row: row.time_s, "right", units.seconds, drops=0.7, name="each s"),
    Column("total", lambda row: row.total_s, "right", units.seconds, name="total s"),
    Column("low", lambda row: row.low_s, "right", units.seconds, drops=True, name="total low s"),
    Column("high", lambda row: row.high_s, "right", units.seconds, drops=True, name="total high s"),
    Column("share of ops", lambda row: row.share, "right", percent, bar=True, name="share"),
    Column("FLOP/s", lambda row: row.flops_per_s, "right", units.count, drops=True),
    Column("bytes/s", lambda row: row.bytes_per_s, "right", lambda rate: units.count(rate, "B"), drops=True),
    Column("FLOPs/byte", lambda row: row.intensity, "right", units.ratio, drops=True),
    Column("bottleneck", lambda row: row.bound, show=bottleneck, name="bound by"),
    Column("recoverable", lambda row: row.recoverable_s, "right", units.seconds, drops=True, name="recoverable s"),
)
_EXECUTIONS: tuple[Column[_Execution], ...] = (
    Column("number", lambda row: row.number, "right", units.exact),
    Column("module", lambda row: row.module, shrinks=True, keeps=12),
    Column("op", lambda row: row.kind.name, show=units.op, shrinks=True, cuts="middle"),
    Column("inputs", lambda row: units.shapes(one.type.shape for one in row.kind.inputs), shrinks=True, keeps=-8),
    Column("time", lambda row: row.seconds, "right", units.seconds, name="time s"),
    Column("share", lambda row: row.share, "right", percent),
    Column("FLOPs", lambda row: row.flops, "right", units.count, drops=True),
)
_THREADS: tuple[Column[ThreadPoint], ...] = (
    Column("threads", lambda point: point.threads, "right", units.exact),
    Column("pass", lambda point: point.time.value, "right", units.seconds),
    Column("range", lambda point: range_text(point.time, units.seconds), "right"),
    Column("efficiency", lambda point: point.efficiency, "right", percent),
    Column("note", lambda point: getattr(point.time.how, "why", ""), shrinks=True),
)
_OVERHEADS = {"module clock": "overhead of timing modules", "operation clock": "overhead of timing ops"}
"""How the overheads of a profile are named in the report."""
_USED = {
    "time": "those of the undisturbed passes",
    "processor": "CPU times",
    "": "withheld, FLOP/s and bottlenecks unknown, shares approximate (--threads 1 can be timed on a busy machine)",
}
"""What the times of a busy machine are, by what rates use."""
_SHORT_S = 100e-6
"""Shorter passes take noticeably longer alone than in a loop."""
DRIFT = 1.05
"""A machine whose speed varied by more than this factor during the run is reported."""
_RANGE = ("total low s", "total high s")
_RATES = {"batch": "samples/s"}
"""The heading of the throughput by swept axis."""


def profile_report(
    document: Document,
    rows: Sequence[Achieved],
    device: Device | None = None,
    *,
    top: int | None = None,
    full: bool = False,
) -> Report:
    """The whole report, with a roofline if the limits are known and repeated blocks folded unless `full`.

    CSV and JSON lines contain all modules.
    """
    profile = document.profile or Profile()
    lines = TOP if top is None else top
    parts: Parts = [
        *time_parts(document, rows, lines, device, full=full),
        *memory_parts(document),
        *energy_parts(document, lines),
        *system_parts(document),
        *section("Notes", notes_table(profile.notes)),
    ]
    return marked(Report(parts, module_table(document)), document)


def time_parts(
    document: Document, rows: Sequence[Achieved], lines: int, device: Device | None = None, *, full: bool = False
) -> Parts:
    """A title, then the measured times: of the pass, modules, ops (beside their limits), thread counts and sweeps."""
    profile = document.profile or Profile()
    parts: Parts = [_title(document, profile), *conditions_lines(document)]
    parts.append(facts(document, profile))
    parts += [*where_parts(document), *module_parts(document, lines, full=full)]
    parts += _first("Ops by total time", with_range(op_table(rows)), lines) if rows else []
    parts += roofline_parts(device, rows) if rows and device is not None else []
    parts += section("Threads", Table(_THREADS, profile.thread_points))
    for sweep in profile.sweeps:
        parts += section(_sweep_title(sweep), sweep_table(sweep))
    return parts


def where_parts(document: Document) -> Parts:
    """Where the time of the pass goes, in a few rows that add up to it; nothing if no module was timed."""
    split = time_split(document)
    if split is None:
        return []
    where = " (on the device)" if split.on_device else ""
    return section(f"Where the time goes{where}", Table(_WHERE, split.rows, split.rest).without_empty())


def _where_name(row: TimeRow) -> str:
    """`layers.0–31.mlp ×32`, or `layers.0–31 ×32 (own ops)`."""
    return f"{row.name}{f' ×{row.count}' if row.count > 1 else ''}{' (own ops)' if row.own else ''}"


def module_parts(document: Document, lines: int, *, full: bool = False) -> Parts:
    """The modules with the largest self times, repeated blocks folded unless `full`; nothing if none was timed."""
    if document.timing is None:
        return []
    where = " on the device" if _on_device(document.timing) else ""
    title, table = _first(f"Modules by self time{where}", shown_modules(document, full=full), lines)
    return [title, table.without_empty()]


def energy_parts(document: Document, lines: int) -> Parts:
    """A title, then the energy of the pass and of the kinds of op; nothing if energy was not requested."""
    energy = document.profile.energy if document.profile is not None else None
    if energy is None:
        return []
    kinds = energy_table(document, energy)
    parts: Parts = [f"Energy ({energy_title(energy)})", *energy_facts(energy)]
    return [*parts, *_first("Energy by kind of op", kinds, lines)] if kinds.rows else parts


def system_parts(document: Document, *, full: bool = False) -> Parts:
    """A title, then the metrics of the machine during the run; nothing if it was not monitored."""
    system = document.profile.system if document.profile is not None else None
    if system is None:
        return []
    metrics = system_table(system, full=full)
    return ["Machine during the run", metrics, *section("Not monitored", notes_table(system.problems))]


def module_table(document: Document) -> Table:
    """One row per module that was called, largest self time first.

    If the device was timed, the order, the shares and FLOP/s use its time: the host only launches kernels.
    """
    timing = document.timing
    if timing is None:
        return Table(_MODULES, [])
    on_device = _on_device(timing)
    step = document.profile.step if document.profile is not None else None
    processor = _processor_times(document)
    rows = []
    for index, time in enumerate(timing.modules):
        if time is None:
            continue
        backward = step.modules[index] if step is not None and index < len(step.modules) else None
        flops = document.cost.modules[index].total.flops if document.cost is not None else None
        rated = time.device_total_s if on_device else time.total_s if processor is None else processor.get(index)
        rows.append(_ModuleRow(document.modules[index], time, backward, flops, rated))
    rows.sort(key=lambda row: -float(row.time.self_share or 0.0))
    own = [row.time.self_share for row in rows]
    outside = {
        "module": "outside any module",
        "class": "",
        "self s": timing.outside.value,
        "self share": None if on_device or None in own else max(1 - sum(share or 0.0 for share in own), 0.0),
        "backward s": step.outside_s if step is not None else None,
    }
    return Table(_MODULES, rows, [outside]).without_empty()


def shown_modules(document: Document, *, full: bool) -> Table:
    """The modules for people: unless `full`, one row for the same module of repeated blocks, the odd one named."""
    table = with_range(module_table(document))
    if full:
        return table
    rows = fold_rows(
        table.rows, lambda row: tree.path_text(row.module.path), lambda row: row.module.class_path, _merged_modules
    )
    rows.sort(key=lambda row: -float(row.time.self_share or 0.0))
    notes: Column[_ModuleRow] = _note(lambda row: row.note)
    return replace(table, columns=[*table.columns, notes], rows=rows)


def _merged_modules(folded: FoldedName, rows: Sequence[_ModuleRow]) -> _ModuleRow:
    """The sums over `rows`; the range of a sum is unknown."""
    module = msgspec.structs.replace(rows[0].module, path=folded.counted)

    def total(name: str) -> Any:
        return sum_if_all_known(getattr(row.time, name) for row in rows)

    time = ModuleTime(
        **{name: total(name) for name in ModuleTime.__struct_fields__ if name not in ("low_s", "high_s")}
    )
    backward, flops, rated = (sum_if_all_known(values) for values in zip(*(row[2:5] for row in rows), strict=True))
    odd = odd_one([row.time.self_share for row in rows])
    note = odd_text(folded.text, rows[odd[0]].module.path, odd[1]) if odd else None
    return _ModuleRow(module, time, backward, flops, rated, note)


def _processor_times(document: Document) -> dict[int, float] | None:
    """CPU seconds in the ops of each module and its submodules; None if rates use the time itself.

    Empty if rates are unknown.
    """
    profile = document.profile
    if profile is None or profile.conditions is None or profile.conditions.rates == "time":
        return None
    seconds: dict[int, float] = {}
    if not profile.conditions.rates:
        return seconds
    for op in document.ops:
        time = profile.kinds[op.kind]
        if time is None or time.processor_s is None:
            continue
        for module in set(modules_around(op.call, document.calls)):
            seconds[module] = seconds.get(module, 0.0) + time.processor_s / time.count
    return seconds


def _on_device(timing: Timing) -> bool:
    return any(time is not None and time.device_self_s is not None for time in timing.modules)


def op_table(rows: Sequence[Achieved]) -> Table:
    """One row per kind of op, in the order of `rows`, with the parallel efficiency if thread counts were swept."""
    counts = sorted({count for row in rows for count in row.efficiency})
    return Table([*_OPS, *(_efficiency_column(count) for count in counts if count > 1)], rows)


def execution_table(document: Document) -> Table:
    """One row per executed op with its own time, longest first; by number if times are unknown."""
    profile = document.profile or Profile()
    known = [seconds for seconds in profile.ops if seconds is not None]
    rows = [
        _Execution(
            number,
            tree.path_text(document.modules[document.module_of(op)].path),
            document.kinds[op.kind],
            seconds,
            part_of(seconds, sum(known)),
            document.cost.kinds[op.kind].flops if document.cost is not None else None,
        )
        for number, (op, seconds) in enumerate(zip(document.ops, profile.ops, strict=False))
    ]
    return Table(_EXECUTIONS, sorted(rows, key=lambda row: -(row.seconds or 0.0)))


def with_range(table: Table) -> Table:
    """The table for people: one column with the range of the total instead of two with its ends."""
    ends = {column.key: column for column in table.columns if column.key in _RANGE}
    if len(ends) < len(_RANGE):
        return table
    low, high = (ends[key] for key in _RANGE)

    def text(row: Any) -> str:
        known = low.value(row) is not None and high.value(row) is not None
        return f"{low.text(row)} to {high.text(row)}" if known else units.UNKNOWN

    column = Column[Any]("range", text, "right", drops=True)
    kept = [column if each is low else each for each in table.columns if each is not high]
    footer = [{**row, "range": units.UNKNOWN} for row in table.footer]
    return replace(table, columns=kept, footer=footer)


def _efficiency_column(threads: int) -> Column[Achieved]:
    return Column(f"efficiency, {threads} threads", lambda row: row.efficiency.get(threads), "right", percent)


def sweep_table(sweep: Sweep) -> Table:
    """One row per size of the swept axis."""

    def note(point: SweepPoint) -> str:
        return point.problem or ("knee" if point.sizes[sweep.axis] == sweep.knee else "")

    rate = _RATES.get(sweep.axis, "per second")
    columns: tuple[Column[SweepPoint], ...] = (
        Column("size", lambda point: point.sizes[sweep.axis], "right", units.exact),
        Column("pass", lambda point: point.time.value, "right", units.seconds),
        Column("range", lambda point: range_text(point.time, units.seconds), "right", drops=True),
        Column(rate, lambda point: point.throughput, "right", units.count, name="per second"),
        Column("predicted memory", lambda point: point.memory.value, "right", units.size),
        Column("measured memory", lambda point: point.measured_memory.value, "right", units.size, drops=True),
        Column("predicted training step", lambda point: point.step_memory.value, "right", units.size),
        Column("note", note, shrinks=True),
    )
    return Table(columns, sweep.points).without_empty()


def facts(document: Document, profile: Profile) -> Table:
    """Times and overheads of the pass and the training step, each with how it was obtained."""
    timing = document.timing or Timing()
    rows = [
        fact("forward pass", profile.whole, units.seconds),
        fact("pass as it ran", timing.as_run, units.seconds),
        *(FigureFact(f"passes at {units.seconds(mode.seconds)}", units.exact(mode.passes), "two distinct speeds")
          for mode in timing.modes),
    ]  # fmt: skip
    if timing.device.value is not None:
        rows += [
            fact("host time of the pass", timing.host, units.seconds),
            fact("kernel time of the pass", timing.device, units.seconds),
            fact("device idle", timing.gap, units.seconds),
        ]
    rows.append(fact("CPU time of the pass", profile.processor, units.seconds))
    rows += _throughput(document, profile)
    rows.append(fact("sum of op times ÷ pass time", profile.closure, units.ratio))
    for name, ratio in profile.overheads.items():
        overhead = ratio if ratio.value is None else Figure(ratio.value - 1, ratio.how)
        rows.append(fact(_OVERHEADS.get(name, f"overhead of the {name}"), overhead, percent))
    if profile.step is not None:
        step = profile.step
        rows += [
            fact("training step (forward and backward)", step.whole, units.seconds),
            fact("its forward pass", step.forward, units.seconds),
            fact("backward pass", step.backward, units.seconds),
            fact(f"optimizer ({step.optimizer_name})", step.optimizer, units.seconds),
        ]
    return figures_table(rows)


def _throughput(document: Document, profile: Profile) -> list[FigureFact]:
    """The achieved FLOPs per second, by the time that rates use."""
    flops = document.cost.forward.flops if document.cost is not None else None
    rates = profile.conditions.rates if profile.conditions is not None else "time"
    seconds = {"time": profile.whole.value, "processor": profile.processor.value}.get(rates)
    if flops is None:
        return []
    if not seconds:
        return [FigureFact("achieved throughput", units.UNKNOWN, "unknown: machine busy")]
    by = {"time": "measured time", "processor": "CPU time"}[rates]
    return [FigureFact("achieved throughput", units.count(flops / seconds, "FLOP/s"), f"counted FLOPs ÷ {by}")]


def conditions_lines(document: Document) -> list[str]:
    """What disturbed the passes and what follows for the figures; a bound by launches; and very short passes."""
    profile, timing = document.profile or Profile(), document.timing or Timing()
    lines = ["bound by launches: the device waits for the host"] if timing.launch_bound else []
    conditions = profile.conditions
    if conditions is None:
        return lines
    if profile.device == "cpu" and profile.whole.value is not None and profile.whole.value < _SHORT_S:
        lines.append("short pass: passes are timed one at a time, with cold caches; in a loop they are faster")
    drift = conditions.drift.value
    if conditions.busy:
        used = _USED[conditions.rates] if conditions.undisturbed is not None else "possibly inflated"
        lines.append(f"machine busy: {conditions.busy}; times are {used}")
    elif drift is not None and drift > DRIFT:
        lines.append(f"the speed of this machine varied by {percent(drift - 1)} during the run")
    return lines


def _title(document: Document, profile: Profile) -> str:
    threads = f", {plural(profile.threads, 'thread')}" if profile.threads else ""
    timed = f"{plural(profile.passes, 'timed pass')} after {plural(profile.warmup, 'warm-up pass')}"
    passes = timed if profile.passes else "nothing was timed"
    mode = ", training mode" if document.run.training else ""
    return f"{document.model_class or 'model'} on {profile.device}{threads}{mode}: {passes}"


def _sweep_title(sweep: Sweep) -> str:
    knee = f"; knee at {units.exact(sweep.knee)}" if sweep.knee is not None else ""
    found = {"": sweep.largest, " of a training step": sweep.largest_step}
    largest = [f"{_largest_text(size)}{use}" for use, size in found.items() if size is not None]
    if not largest:
        return f"Sweep over {sweep.axis}{knee}"
    fits = f"largest {sweep.axis} predicted to fit in {units.size(sweep.limit.value)}"
    return f"Sweep over {sweep.axis}{knee}; {fits}: {', '.join(largest)}"


def _largest_text(size: int) -> str:
    return f"{'at least ' if size >= LARGEST_SEARCHED else ''}{units.exact(size)}"


def _first(title: str, table: Table, lines: int) -> tuple[str, Table]:
    """The title and the first `lines` rows of the table; the title gives both numbers if rows are omitted."""
    omitted = f" (first {lines} of {len(table.rows)})" if len(table.rows) > lines else ""
    return f"{title}{omitted}", table.first(lines)
