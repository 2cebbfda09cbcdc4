"""What a machine can do, for people: its ceilings, its memory, its sensors, and the roofline as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from assay import units
from assay.document.machine import CacheLevel, Ceiling, MachineReport, Scaling, Sensor
from assay.document.provenance import Figure, Measured, Unknown
from assay.views.tables import Column, Table
from assay.views.text.amounts import percent
from assay.views.text.facts import drawing_table, facts_table
from assay.views.text.figures import Show, spread
from assay.views.text.machine_picture import picture
from assay.views.text.report import Parts, Report, section

_rate, _bandwidth = partial(units.count, unit="FLOP/s"), partial(units.count, unit="B/s")
_SHOW: dict[str, Show] = {"arithmetic": _rate, "bandwidth": _bandwidth, "overhead": units.seconds}
_LEVELS: tuple[Column[CacheLevel], ...] = (
    Column("level", lambda level: level.name),
    Column("size", lambda level: level.size, "right", units.size),
    Column("copy, one thread", lambda level: level.bandwidth.value, "right", _bandwidth),
    Column("why not", lambda level: _why(level.bandwidth)),
)
_SCALING: tuple[Column[Scaling], ...] = (
    Column("threads", lambda one: one.threads, "right", units.exact),
    Column("fp32", lambda one: one.flops.value, "right", _rate),
    Column("efficiency", lambda one: one.efficiency, "right", percent),
)
_SENSORS: tuple[Column[Sensor], ...] = (
    Column("sensor", lambda one: one.name),
    Column("measures", lambda one: one.measures, drops=True),
    Column("covers", lambda one: one.scope, drops=True),
    Column("new value every", lambda one: one.period.value, "right", units.seconds),
    Column("a read costs", lambda one: one.read_s, "right", units.seconds, drops=True),
    Column("now", lambda one: None if one.value is None else f"{one.value:.1f} {one.unit}", "right"),
    Column("idle", lambda one: None if one.idle_w.value is None else _watts(one.idle_w), "right"),
    Column("why not", lambda one: one.why, shrinks=True),
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


def machine_report(report: MachineReport, *, utf8: bool = True) -> Report:
    """Everything measured, in the order people ask."""
    parts: Parts = [headline(report), _facts(report)]
    parts += ["Arithmetic", _ceilings("arithmetic", report.arithmetic)]
    parts += ["Memory", _ceilings("bandwidth", report.bandwidth)]
    parts += section("Caches", Table(_LEVELS, report.levels))
    parts += ["An operation that does nothing", _ceilings("overhead", report.overhead)]
    if len(report.scaling) > 1:
        parts += ["Threads", Table(_SCALING, report.scaling)]
    parts += _drawn(report, utf8)
    parts += ["Sensors", Table(_SENSORS, report.sensors)]
    return Report(parts, data(report))


def headline(report: MachineReport) -> str:
    """The machine in one line."""
    hardware = report.hardware
    memory = units.size(hardware.memory_bytes)
    threads = f", {hardware.threads} threads" if hardware.threads and hardware.device == "cpu" else ""
    return f"{hardware.name} ({hardware.device}{threads}, {memory}), measured {report.date}"


def data(report: MachineReport) -> Table:
    """One row per ceiling, with raw values."""
    return Table(_DATA, [_CeilingRow(kind, one) for kind in _SHOW for one in getattr(report, kind)])


def _facts(report: MachineReport) -> Table:
    hardware, energy = report.hardware, report.energy
    facts: list[tuple[str, str | None]] = [
        ("system", hardware.system),
        ("torch", hardware.torch),
        ("driver", hardware.driver),
        ("cores", units.exact(hardware.cores)),
        ("idle power", _watts(report.idle_w)),
        ("energy model", None if energy is None else f"calibrated, error {percent(energy.error)}"),
        ("other work", None if report.others is None else f"{percent(report.others)} of the processor meanwhile"),
        ("measuring took", units.seconds(report.took_s)),
    ]
    shown = [(name, value) for name, value in facts if value is not None]
    return facts_table([*shown, *(("note", note) for note in report.notes)], "fact")


def _ceilings(kind: str, ceilings: Sequence[Ceiling]) -> Table:
    show = _SHOW[kind]
    columns: tuple[Column[Ceiling], ...] = (
        Column("what", lambda one: one.name),
        Column("best", lambda one: one.best.value, "right", show),
        Column("median", lambda one: one.median.value, "right", show),
        Column("spread", lambda one: spread(one.median), "right", show, drops=True),
        Column("bursts", _repeats, "right", units.exact, drops=True),
        Column("at", lambda one: _why(one.best) or one.at, shrinks=True),
    )
    return Table(columns, ceilings)


def _repeats(one: Ceiling) -> int | None:
    return one.median.how.repeats if isinstance(one.median.how, Measured) else None


def _watts(figure: Figure) -> str:
    if figure.value is None:
        return f"{units.UNKNOWN} ({_why(figure)})"
    around = spread(figure)
    return f"{figure.value:.1f} W" + (f" ± {around:.1f}" if around is not None else "")


def _why(figure: Figure) -> str:
    return figure.how.why if isinstance(figure.how, Unknown) else ""


def _drawn(report: MachineReport, utf8: bool) -> Parts:
    peaks = {one.name: one.value for one in report.arithmetic if one.value}
    bandwidth = max((one.value for one in report.bandwidth if one.value), default=None)
    if not peaks or bandwidth is None:
        return []
    return ["Roofline", drawing_table("rate", "roofline", picture(peaks, bandwidth, utf8=utf8))]
