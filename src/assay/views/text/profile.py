"""The profile report: times of the pass, its modules and ops, memory, the training step and sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from assay import units
from assay.analysis.achieved import Achieved
from assay.analysis.devices import Device
from assay.document import tree
from assay.document.document import Document
from assay.document.profile import LARGEST_SEARCHED, Profile, Sweep, SweepPoint, ThreadPoint
from assay.document.provenance import Figure
from assay.document.rows import OpKind
from assay.document.timing import Timing
from assay.messages import plural
from assay.views.tables import Column, Table, percent
from assay.views.text.amounts import part_of
from assay.views.text.energy import energy_facts, energy_table, energy_title, system_table
from assay.views.text.facts import notes_table
from assay.views.text.figures import FigureFact, bottleneck, fact, figures_table, range_text
from assay.views.text.partial_report import marked
from assay.views.text.profile_memory import memory_parts
from assay.views.text.profile_modules import module_parts, module_table, where_parts, with_range
from assay.views.text.report import Parts, Report, first_rows, section
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
    parts += first_rows("Ops by total time", with_range(op_table(rows)), lines) if rows else []
    parts += roofline_parts(device, rows) if rows and device is not None else []
    parts += section("Threads", thread_table(profile))
    for sweep in profile.sweeps:
        parts += section(_sweep_title(sweep), sweep_table(sweep))
    return parts


def energy_parts(document: Document, lines: int) -> Parts:
    """A title, then the energy of the pass and of the kinds of op; nothing if energy was not requested."""
    energy = document.profile.energy if document.profile is not None else None
    if energy is None:
        return []
    kinds = energy_table(document, energy)
    parts: Parts = [f"Energy ({energy_title(energy)})", *energy_facts(energy)]
    return [*parts, *first_rows("Energy by kind of op", kinds, lines)] if kinds.rows else parts


def system_parts(document: Document, *, full: bool = False) -> Parts:
    """A title, then the metrics of the machine during the run; nothing if it was not monitored."""
    system = document.profile.system if document.profile is not None else None
    if system is None:
        return []
    metrics = system_table(system, full=full)
    return ["Machine during the run", metrics, *section("Not monitored", notes_table(system.problems))]


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


def thread_table(profile: Profile) -> Table:
    """One row per number of threads."""
    return Table(_THREADS, profile.thread_points)


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
        busy = profile.conditions is not None and profile.conditions.withheld
        return [
            FigureFact("achieved throughput", units.UNKNOWN, f"unknown: {'machine busy' if busy else 'not timed'}")
        ]
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
