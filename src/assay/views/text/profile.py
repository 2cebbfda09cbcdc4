"""The report of a profile: the pass, its modules, its operations, memory, the training step, sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from assay import units
from assay.analysis.achieved import Achieved
from assay.document import tree
from assay.document.document import Document
from assay.document.profile import Profile, Sweep, SweepPoint, ThreadPoint
from assay.document.rows import Module
from assay.document.timing import ModuleTime, Timing
from assay.messages import plural
from assay.views.tables import Column, Table
from assay.views.text.amounts import part_of, percent
from assay.views.text.energy import energy_facts, energy_table, energy_title, system_table
from assay.views.text.facts import notes_table
from assay.views.text.figures import FigureFact, fact, figures_table, spread
from assay.views.text.report import Parts, Report, section

TOP = 15
"""Lines of each table in the report; `--top` gives more, and data formats have all."""


class _ModuleRow(NamedTuple):
    """A module that was called, and its time on whatever ran it."""

    module: Module
    time: ModuleTime
    own_s: float | None
    total_s: float | None
    share: float | None
    backward_s: float | None
    flops: int | None

    @property
    def flops_per_s(self) -> float | None:
        return part_of(self.flops, self.total_s)


_MODULES: tuple[Column[_ModuleRow], ...] = (
    Column("module", lambda row: tree.shown(row.module.path), shrinks=True, keeps=12),
    Column("class", lambda row: row.module.class_name, shrinks=True, drops=True),
    Column("calls", lambda row: row.time.calls, "right", units.exact),
    Column("total s", lambda row: row.time.total_s, "right", units.seconds),
    Column("spread s", lambda row: row.time.spread_s, "right", units.seconds, drops=True),
    Column("self s", lambda row: row.time.self_s, "right", units.seconds),
    Column("device total s", lambda row: row.time.device_total_s, "right", units.seconds),
    Column("device self s", lambda row: row.time.device_self_s, "right", units.seconds),
    Column("self share", lambda row: row.share, "right", percent),
    Column("backward s", lambda row: row.backward_s, "right", units.seconds, drops=True),
    Column("FLOPs", lambda row: row.flops, "right", units.count, drops=True),
    Column("FLOP/s", lambda row: row.flops_per_s, "right", units.count, drops=True),
)
_OPS: tuple[Column[Achieved], ...] = (
    Column("op", lambda row: row.name, shrinks=True, keeps=8),
    Column("inputs", lambda row: units.shapes(row.shapes), shrinks=True, drops=True),
    Column("count", lambda row: row.count, "right", units.exact),
    Column("each s", lambda row: row.time_s, "right", units.seconds),
    Column("spread s", lambda row: row.spread_s, "right", units.seconds, drops=True),
    Column("total s", lambda row: row.total_s, "right", units.seconds),
    Column("share", lambda row: row.share, "right", percent),
    Column("FLOP/s", lambda row: row.flops_per_s, "right", units.count, drops=True),
    Column("bytes/s", lambda row: row.bytes_per_s, "right", lambda rate: units.count(rate, "B"), drops=True),
    Column("FLOPs/byte", lambda row: row.intensity, "right", units.ratio, drops=True),
    Column("bound by", lambda row: row.bound),
    Column("recoverable s", lambda row: row.recoverable_s, "right", units.seconds, drops=True),
)
_THREADS: tuple[Column[ThreadPoint], ...] = (
    Column("threads", lambda point: point.threads, "right", units.exact),
    Column("pass s", lambda point: point.time.value, "right", units.seconds),
    Column("spread s", lambda point: spread(point.time), "right", units.seconds),
    Column("efficiency", lambda point: point.efficiency, "right", percent),
)


def profile_report(document: Document, rows: Sequence[Achieved], *, top: int | None = None) -> Report:
    """Everything a person is told; its data are the modules."""
    profile = document.profile or Profile()
    lines = TOP if top is None else top
    parts: Parts = [
        *time_parts(document, rows, lines),
        *energy_parts(document, lines),
        *system_parts(document),
        *section("Notes", notes_table(profile.notes)),
    ]
    return Report(parts, module_table(document))


def time_parts(document: Document, rows: Sequence[Achieved], lines: int) -> Parts:
    """A title, then what clocks said: the pass, modules, operations, threads, sizes."""
    profile = document.profile or Profile()
    parts: Parts = [_title(document, profile), facts(document, profile)]
    if document.timing is not None:
        where = " on the device" if _on_device(document.timing) else ""
        parts += _first(f"Modules, by self time{where}", module_table(document), lines)
    parts += _first("Operations, by total time", op_table(rows), lines) if rows else []
    parts += section("Threads", Table(_THREADS, profile.thread_points))
    for sweep in profile.sweeps:
        parts += [_sweep_title(sweep), sweep_table(sweep)]
    return parts


def energy_parts(document: Document, lines: int) -> Parts:
    """A title, then the energy of the pass and of operations; nothing where nobody asked."""
    energy = document.profile.energy if document.profile is not None else None
    if energy is None:
        return []
    kinds = energy_table(document, energy)
    parts: Parts = [f"Energy, {energy_title(energy)}", energy_facts(energy)]
    return [*parts, *_first("Energy of operations", kinds, lines)] if kinds.rows else parts


def system_parts(document: Document, *, full: bool = False) -> Parts:
    """A title, then the machine while it ran; nothing where it was not watched."""
    system = document.profile.system if document.profile is not None else None
    if system is None:
        return []
    watched = system_table(system, full=full)
    return ["The machine while it ran", watched, *section("What could not be watched", notes_table(system.problems))]


def module_table(document: Document) -> Table:
    """One row per module that was called, the largest self time first; the device's time where there is one.

    Shares and FLOPs per second are of the device's time too: what the processor takes is launching.
    """
    timing = document.timing
    if timing is None:
        return Table(_MODULES, [])
    on_device = _on_device(timing)
    known = [time for time in timing.modules if time is not None]
    whole = sum(time.device_self_s or 0.0 for time in known) if on_device else timing.whole.value
    step = document.profile.step if document.profile is not None else None
    rows = []
    for index, time in enumerate(timing.modules):
        if time is None:
            continue
        own, total = (time.device_self_s, time.device_total_s) if on_device else (time.self_s, time.total_s)
        backward = step.modules[index] if step is not None and index < len(step.modules) else None
        flops = document.cost.modules[index].total.flops if document.cost is not None else None
        rows.append(_ModuleRow(document.modules[index], time, own, total, part_of(own, whole), backward, flops))
    rows.sort(key=lambda row: -float(row.own_s or 0.0))
    outside = {
        "module": "outside any module",
        "class": "",
        "self s": timing.outside.value,
        "self share": None if on_device else part_of(timing.outside.value, whole),
        "backward s": step.outside_s if step is not None else None,
    }
    return Table(_MODULES, rows, [outside]).without_empty()


def _on_device(timing: Timing) -> bool:
    return any(time is not None and time.device_self_s is not None for time in timing.modules)


def op_table(rows: Sequence[Achieved]) -> Table:
    """One row per kind of operation, the longest first."""
    return Table(_OPS, rows)


def sweep_table(sweep: Sweep) -> Table:
    """One row per size."""

    def note(point: SweepPoint) -> str:
        return point.problem or ("the knee" if point.sizes[sweep.axis] == sweep.knee else "")

    columns: tuple[Column[SweepPoint], ...] = (
        Column("size", lambda point: point.sizes[sweep.axis], "right", units.exact),
        Column("pass s", lambda point: point.time.value, "right", units.seconds),
        Column("spread s", lambda point: spread(point.time), "right", units.seconds, drops=True),
        Column("a second", lambda point: point.throughput, "right", units.count),
        Column("memory predicted", lambda point: point.memory.value, "right", units.size),
        Column("growth measured", lambda point: point.measured_memory.value, "right", units.size, drops=True),
        Column("note", note, shrinks=True),
    )
    return Table(columns, sweep.points)


def facts(document: Document, profile: Profile) -> Table:
    """The figures of the whole pass, each with how it was obtained."""
    rows = [fact("one forward pass", profile.whole, units.seconds)]
    rows.append(fact("its processor time", profile.processor, units.seconds))
    flops = document.cost.forward.flops if document.cost is not None else None
    if flops is not None and profile.whole.value:
        achieved = flops / profile.whole.value
        rows.append(FigureFact("achieved", units.count(achieved, "FLOP/s"), "counted FLOPs over measured time"))
    rows.append(fact("operations over the pass", profile.closure, units.ratio))
    rows += [fact(f"{name} over the bare pass", figure, units.ratio) for name, figure in profile.overheads.items()]
    if profile.memory is not None:
        memory = profile.memory
        rows += [
            fact("activations, predicted", memory.predicted_activations, units.size),
            fact("resident set: growth in a pass", memory.process_growth, units.size),
            fact("resident set: peak", memory.process_peak, units.size),
        ]
        if memory.allocator_peak.value is not None:
            rows.append(fact("allocator: peak", memory.allocator_peak, units.size))
    if profile.step is not None:
        step = profile.step
        rows += [
            fact("one training step", step.whole, units.seconds),
            fact("backward of it", step.backward, units.seconds),
            fact(f"optimizer ({step.optimizer_name})", step.optimizer, units.seconds),
        ]
    return figures_table(rows)


def _title(document: Document, profile: Profile) -> str:
    threads = f", {plural(profile.threads, 'thread')}" if profile.threads else ""
    timed = (
        f"{profile.passes} timed passes after {profile.warmup} to warm up" if profile.passes else "nothing was timed"
    )
    return f"{document.model_class or 'model'} on {profile.device}{threads}: {timed}"


def _sweep_title(sweep: Sweep) -> str:
    knee = f"; the knee is {units.exact(sweep.knee)}" if sweep.knee is not None else ""
    largest = f"; {units.exact(sweep.largest)} is the largest predicted to fit {units.size(sweep.limit.value)}"
    return f"Sweep over {sweep.axis}{knee}{largest if sweep.largest is not None else ''}"


def _first(title: str, table: Table, lines: int) -> Parts:
    """A title and so many rows of a table, the title saying so where there are more."""
    cut = f" (first {lines} of {len(table.rows)})" if len(table.rows) > lines else ""
    return [f"{title}{cut}", table.first(lines)]
