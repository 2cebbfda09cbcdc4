"""The machine report: limits, memory, sensors, and a picture of the roofline."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from assay import units
from assay.analysis.ceilings import as_device
from assay.document.machine import CacheLevel, Ceiling, EnergyModel, MachineReport, Scaling, Sensor
from assay.document.provenance import Figure, Measured, Unknown
from assay.messages import plural
from assay.views.tables import Column, Table, percent
from assay.views.text.facts import facts_table
from assay.views.text.figures import Show, spread
from assay.views.text.report import Parts, Report, section
from assay.views.text.roofline_plot import roofline_parts

_rate, _bandwidth = partial(units.count, unit="FLOP/s"), partial(units.count, unit="B/s")
_SHOW: dict[str, Show] = {"arithmetic": _rate, "bandwidth": _bandwidth, "overhead": units.seconds}
_LEVELS: tuple[Column[CacheLevel], ...] = (
    Column("level", lambda level: level.name),
    Column("size", lambda level: level.size, "right", units.size),
    Column("copy (1 thread)", lambda level: level.bandwidth.value, "right", _bandwidth),
    Column("note", lambda level: _why(level.bandwidth)),
)
_SCALING: tuple[Column[Scaling], ...] = (
    Column("threads", lambda one: one.threads, "right", units.exact),
    Column("fp32", lambda one: one.flops.value, "right", _rate),
    Column("efficiency", lambda one: one.efficiency, "right", percent),
)
_SENSORS: tuple[Column[Sensor], ...] = (
    Column("sensor", lambda one: one.name),
    Column("measures", lambda one: one.measures, drops=True),
    Column("scope", lambda one: one.scope, drops=True),
    Column("update period", lambda one: one.period.value, "right", units.seconds),
    Column("read time", lambda one: one.read_s, "right", units.seconds, drops=True),
    Column("current", lambda one: None if one.value is None else f"{one.value:.1f} {one.unit}", "right"),
    Column("idle power", lambda one: None if one.idle_w.value is None else _watts(one.idle_w), "right"),
    Column("note", lambda one: one.why, shrinks=True),
)
_ENERGY_ERRORS: tuple[Column[tuple[str, float]], ...] = (
    Column("op or model", lambda row: row[0]),
    Column("error", lambda row: row[1], "right", lambda error: f"{100 * error:+.1f} %"),
)


class _CeilingRow(NamedTuple):
    kind: str
    ceiling: Ceiling


_DATA: tuple[Column[_CeilingRow], ...] = (
    Column("kind", lambda row: row.kind),
    Column("name", lambda row: row.ceiling.name),
    Column("best", lambda row: row.ceiling.best.value, "right"),
    Column("median", lambda row: row.ceiling.median.value, "right"),
    Column("spread", lambda row: spread(row.ceiling.median), "right"),
    Column("repeats", lambda row: _repeats(row.ceiling), "right"),
    Column("at", lambda row: row.ceiling.at),
    Column("why not", lambda row: _why(row.ceiling.best)),
)


def machine_report(report: MachineReport) -> Report:
    """All measured limits as text; CSV and JSON lines have one row per limit."""
    parts: Parts = [headline(report), _facts(report)]
    parts += ["Arithmetic", _ceilings("arithmetic", report.arithmetic)]
    parts += ["Memory", _ceilings("bandwidth", report.bandwidth)]
    parts += section("Caches", Table(_LEVELS, report.levels))
    parts += ["Overhead per op", _ceilings("overhead", report.overhead)]
    if len(report.scaling) > 1:
        parts += ["Threads", Table(_SCALING, report.scaling)]
    parts += roofline_parts(as_device(report))
    parts += ["Sensors", Table(_SENSORS, report.sensors)]
    if report.energy is not None:
        title = "Energy model: error for each op or model, fitted to the others"
        parts += section(title, Table(_ENERGY_ERRORS, list(report.energy.errors.items())))
    return Report(parts, data(report))


def headline(report: MachineReport) -> str:
    """The machine in one line: `AMD EPYC (cpu, 8 threads, 64 GiB), measured 2025-01-31`."""
    hardware = report.hardware
    memory = units.size(hardware.memory_bytes)
    threads = f", {plural(hardware.threads, 'thread')}" if hardware.threads and hardware.device == "cpu" else ""
    quick = " (quick measurement)" if report.quick else ""
    return f"{hardware.name} ({hardware.device}{threads}, {memory}), measured {report.date}{quick}"


def data(report: MachineReport) -> Table:
    """One row per limit, with raw values."""
    return Table(_DATA, [_CeilingRow(kind, one) for kind in _SHOW for one in getattr(report, kind)])


def _facts(report: MachineReport) -> Table:
    hardware, energy = report.hardware, report.energy
    facts: list[tuple[str, str | None]] = [
        ("system", hardware.system),
        ("torch", hardware.torch),
        ("driver", hardware.driver),
        ("cores", units.exact(hardware.cores)),
        ("idle power", _watts(report.idle_w)),
        ("energy model", None if energy is None else _accuracy(energy)),
        ("other processes", None if report.others is None else f"used {percent(report.others)} of the CPU"),
        ("measurement time", units.seconds(report.took_s)),
    ]
    shown = [(name, value) for name, value in facts if value is not None]
    return facts_table([*shown, *(("note", note) for note in report.notes)])


def _accuracy(energy: EnergyModel) -> str:
    """The median leave-one-out error of the energy model, and its 90 % interval."""
    text = f"calibrated, median error {percent(energy.error)}"
    if energy.interval is None:
        return text
    low, high = energy.interval
    return f"{text}; in 90 % of cases, the energy is {low:.2f} to {high:.2f} times the estimate"


def _ceilings(kind: str, ceilings: Sequence[Ceiling]) -> Table:
    show = _SHOW[kind]
    columns: tuple[Column[Ceiling], ...] = (
        Column("name", lambda one: one.name),
        Column("best", lambda one: one.best.value, "right", show),
        Column("median", lambda one: one.median.value, "right", show),
        Column("spread", lambda one: spread(one.median), "right", show, drops=True),
        Column("repeats", _repeats, "right", units.exact, drops=True),
        Column("workload", lambda one: _why(one.best) or one.at, shrinks=True),
    )
    return Table(columns, ceilings)


def _repeats(one: Ceiling) -> int | None:
    return one.median.how.repeats if isinstance(one.median.how, Measured) else None


def _watts(figure: Figure) -> str:
    if figure.value is None:
        return f"{units.UNKNOWN} ({_why(figure)})"
    deviation = spread(figure)
    return f"{figure.value:.1f} W" + (f" ± {deviation:.1f}" if deviation is not None else "")


def _why(figure: Figure) -> str:
    return figure.how.why if isinstance(figure.how, Unknown) else ""
