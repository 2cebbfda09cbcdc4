"""The report of a profile: the pass, its modules, its operations, memory, the training step, sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay import units
from assay.analysis.achieved import Achieved
from assay.document import tree
from assay.document.document import Document
from assay.document.profile import Profile, Sweep, ThreadPoint
from assay.views.tables import Column, Table
from assay.views.text.energy import energy_facts, energy_table, energy_title, system_table
from assay.views.text.figures import fact, spread
from assay.views.text.report import Report

TOP = 15
"""Lines of each table in the report; `--top` gives more, and data formats have all."""

_FACTS = (Column("what"), Column("value", "right"), Column("how", shrinks=True, drops=True))
_MODULES = (
    Column("module", shrinks=True, keeps=12),
    Column("class", shrinks=True, drops=True),
    Column("calls", "right", units.exact),
    Column("total s", "right", units.seconds),
    Column("spread s", "right", units.seconds, drops=True),
    Column("self s", "right", units.seconds),
    Column("device total s", "right", units.seconds),
    Column("device self s", "right", units.seconds),
    Column("self share", "right", lambda share: units.share(share, 1)),
    Column("backward s", "right", units.seconds, drops=True),
    Column("FLOPs", "right", units.count, drops=True),
    Column("FLOP/s", "right", units.count, drops=True),
)
_OPS = (
    Column("op", shrinks=True, keeps=8),
    Column("inputs", shrinks=True, drops=True),
    Column("count", "right", units.exact),
    Column("each s", "right", units.seconds),
    Column("spread s", "right", units.seconds, drops=True),
    Column("total s", "right", units.seconds),
    Column("share", "right", lambda share: units.share(share, 1)),
    Column("FLOP/s", "right", units.count, drops=True),
    Column("bytes/s", "right", lambda rate: units.count(rate, "B"), drops=True),
    Column("FLOPs/byte", "right", units.ratio, drops=True),
    Column("bound by"),
    Column("recoverable s", "right", units.seconds, drops=True),
)
_THREADS = (
    Column("threads", "right", units.exact),
    Column("pass s", "right", units.seconds),
    Column("spread s", "right", units.seconds),
    Column("efficiency", "right", lambda share: units.share(share, 1)),
)
_SIZES = (
    Column("size", "right", units.exact),
    Column("pass s", "right", units.seconds),
    Column("spread s", "right", units.seconds, drops=True),
    Column("a second", "right", units.count),
    Column("memory predicted", "right", units.size),
    Column("growth measured", "right", units.size, drops=True),
    Column("note", shrinks=True),
)


Parts = list[str | Table]


def profile_report(document: Document, rows: Sequence[Achieved], *, top: int | None = None) -> Report:
    """Everything a person is told; its data are the modules."""
    profile = document.profile or Profile()
    lines = TOP if top is None else top
    parts: Parts = [
        *time_parts(document, rows, lines),
        *energy_parts(document, lines),
        *system_parts(document),
        *note_parts(profile),
    ]
    return Report(parts, module_table(document))


def time_parts(document: Document, rows: Sequence[Achieved], lines: int) -> Parts:
    """A title, then what clocks said: the pass, modules, operations, threads, sizes."""
    profile = document.profile or Profile()
    parts: Parts = [_title(document, profile), facts(document, profile)]
    if document.timing is not None:
        modules = module_table(document)
        parts += [_heading(_by_self_time(document), modules, lines), first(modules, lines)]
    if rows:
        ops = op_table(rows)
        parts += [_heading("Operations, by total time", ops, lines), first(ops, lines)]
    if profile.thread_points:
        parts += ["Threads", thread_table(profile.thread_points)]
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
    return [*parts, _heading("Energy of operations", kinds, lines), first(kinds, lines)] if kinds.rows else parts


def system_parts(document: Document, *, full: bool = False) -> Parts:
    """A title, then the machine while it ran; nothing where it was not watched."""
    system = document.profile.system if document.profile is not None else None
    if system is None:
        return []
    parts: Parts = ["The machine while it ran", system_table(system, full=full)]
    return parts if not system.problems else [*parts, "What could not be watched", _lines(system.problems)]


def note_parts(profile: Profile) -> Parts:
    """A title and what was noted; nothing where nothing was."""
    return ["Notes", _lines(profile.notes)] if profile.notes else []


def _lines(texts: Sequence[str]) -> Table:
    return Table((Column("note", shrinks=True),), [[text] for text in texts], bare=True)


def module_table(document: Document) -> Table:
    """One row a module that was called, the largest self time first; the device's time where there is one.

    Shares and FLOPs a second are of the device's time too: what the processor takes is launching.
    """
    timing = document.timing
    if timing is None:
        return Table(_MODULES, [])
    step = document.profile.step if document.profile is not None else None
    times = [(index, time) for index, time in enumerate(timing.modules) if time is not None]
    on_device = any(time.device_self_s is not None for _, time in times)
    whole = sum(time.device_self_s or 0.0 for _, time in times) if on_device else timing.whole.value
    rows: list[list[Any]] = []
    for index, time in times:
        module = document.modules[index]
        flops = document.cost.modules[index].total.flops if document.cost is not None else None
        own, total = (time.device_self_s, time.device_total_s) if on_device else (time.self_s, time.total_s)
        rows.append(
            [
                tree.shown(module.path),
                module.class_name,
                time.calls,
                time.total_s,
                time.spread_s,
                time.self_s,
                time.device_total_s,
                time.device_self_s,
                own / whole if whole and own is not None else None,
                step.modules[index] if step is not None and index < len(step.modules) else None,
                flops,
                flops / total if flops is not None and total else None,
            ]
        )
    rows.sort(key=lambda row: -float((row[7] if on_device else row[5]) or 0.0))
    outside = timing.outside.value
    share = outside / whole if whole and outside is not None and not on_device else None
    after = step.outside_s if step is not None else None
    footer = [["outside any module", "", None, None, None, outside, None, None, share, after, None, None]]
    return without_empty(Table(_MODULES, rows, footer))


def without_empty(table: Table) -> Table:
    """The table without columns in which nothing is known."""
    kept = [index for index in range(len(table.columns)) if any(row[index] is not None for row in table.rows)]
    if not table.rows:
        return table
    return Table(
        [table.columns[index] for index in kept],
        [[row[index] for index in kept] for row in table.rows],
        [[row[index] for index in kept] for row in table.footer],
    )


def op_table(rows: Sequence[Achieved]) -> Table:
    """One row a kind of operation, the longest first."""
    return Table(
        _OPS,
        [
            [
                row.name,
                ", ".join(units.shape(shape) for shape in row.shapes),
                row.count,
                row.time_s,
                row.spread_s,
                row.total_s,
                row.share,
                row.flops_per_s,
                row.bytes_per_s,
                row.intensity,
                row.bound,
                row.recoverable_s,
            ]
            for row in rows
        ],
    )


def thread_table(points: Sequence[ThreadPoint]) -> Table:
    """One row a number of threads."""
    return Table(
        _THREADS,
        [[point.threads, point.time.value, spread(point.time), point.efficiency] for point in points],
    )


def sweep_table(sweep: Sweep) -> Table:
    """One row a size."""
    return Table(
        _SIZES,
        [
            [
                point.sizes[sweep.axis],
                point.time.value,
                spread(point.time),
                point.throughput,
                point.memory.value,
                point.measured_memory.value,
                point.problem or ("the knee" if point.sizes[sweep.axis] == sweep.knee else ""),
            ]
            for point in sweep.points
        ],
    )


def facts(document: Document, profile: Profile) -> Table:
    """The figures of the whole pass, each with how it was obtained."""
    rows = [fact("one forward pass", profile.whole, units.seconds)]
    rows.append(fact("its processor time", profile.processor, units.seconds))
    flops = document.cost.forward.flops if document.cost is not None else None
    if flops is not None and profile.whole.value:
        achieved = flops / profile.whole.value
        rows.append(["achieved", units.count(achieved, "FLOP/s"), "counted FLOPs over measured time"])
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
    return Table(_FACTS, rows, bare=True)


def first(table: Table, lines: int | None) -> Table:
    """The table cut to so many lines, its footer kept; whole where that is None."""
    return Table(table.columns, table.rows[:lines], table.footer)


def _by_self_time(document: Document) -> str:
    times = document.timing.modules if document.timing is not None else []
    on_device = any(time is not None and time.device_self_s is not None for time in times)
    return "Modules, by self time on the device" if on_device else "Modules, by self time"


def _title(document: Document, profile: Profile) -> str:
    threads = f", {profile.threads} thread{'s' if profile.threads != 1 else ''}" if profile.threads else ""
    timed = (
        f"{profile.passes} timed passes after {profile.warmup} to warm up" if profile.passes else "nothing was timed"
    )
    return f"{document.model_class or 'model'} on {profile.device}{threads}: {timed}"


def _sweep_title(sweep: Sweep) -> str:
    knee = f"; the knee is {units.exact(sweep.knee)}" if sweep.knee is not None else ""
    largest = f"; {units.exact(sweep.largest)} is the largest predicted to fit {units.size(sweep.limit.value)}"
    return f"Sweep over {sweep.axis}{knee}{largest if sweep.largest is not None else ''}"


def _heading(text: str, table: Table, lines: int) -> str:
    return f"{text} (first {lines} of {len(table.rows)})" if len(table.rows) > lines else text
