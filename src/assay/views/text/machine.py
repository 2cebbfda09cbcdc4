"""What a machine can do, for people: its ceilings, its memory, its sensors, and the roofline as a picture."""

from __future__ import annotations

from collections.abc import Sequence

from assay import units
from assay.document.machine import Ceiling, MachineReport, Sensor
from assay.document.provenance import Figure, Measured, Unknown
from assay.views.tables import Column, Table
from assay.views.text.amounts import percent
from assay.views.text.machine_picture import picture
from assay.views.text.report import Report

_NAMED = "what"


def _rate(value: float | None) -> str:
    return units.count(value, "FLOP/s")


def _bandwidth(value: float | None) -> str:
    return units.count(value, "B/s")


_SHOW = {"arithmetic": _rate, "bandwidth": _bandwidth, "overhead": units.seconds}
_FACTS = (Column("fact"), Column("value", shrinks=True))
_LEVELS = (
    Column("level"),
    Column("size", "right", units.size),
    Column("copy, one thread", "right", _bandwidth),
    Column("why not"),
)
_SCALING = (
    Column("threads", "right", units.exact),
    Column("fp32", "right", _rate),
    Column("efficiency", "right", percent),
)
_SENSORS = (
    Column("sensor"),
    Column("measures", drops=True),
    Column("covers", drops=True),
    Column("new value every", "right", units.seconds),
    Column("a read costs", "right", units.seconds, drops=True),
    Column("now", "right"),
    Column("idle", "right"),
    Column("why not", shrinks=True),
)
_DATA = (
    Column("kind"),
    Column("name"),
    Column("best", "right"),
    Column("median", "right"),
    Column("spread", "right"),
    Column("repeats", "right"),
    Column("at"),
    Column("why not"),
)
_PICTURE = (Column("rate", "right"), Column("roofline"))


def machine_report(report: MachineReport, *, utf8: bool = True) -> Report:
    """Everything measured, in the order people ask."""
    parts: list[str | Table] = [headline(report), _facts(report)]
    parts += ["Arithmetic", _ceilings("arithmetic", report.arithmetic)]
    parts += ["Memory", _ceilings("bandwidth", report.bandwidth)]
    if report.levels:
        rows = [[level.name, level.size, level.bandwidth.value, _why(level.bandwidth)] for level in report.levels]
        parts += ["Caches", Table(_LEVELS, rows)]
    parts += ["An operation that does nothing", _ceilings("overhead", report.overhead)]
    if len(report.scaling) > 1:
        parts += [
            "Threads",
            Table(_SCALING, [[one.threads, one.flops.value, one.efficiency] for one in report.scaling]),
        ]
    parts += _drawn(report, utf8)
    parts += ["Sensors", Table(_SENSORS, [_sensor(one) for one in report.sensors])]
    return Report(parts, data(report))


def headline(report: MachineReport) -> str:
    """The machine in one line."""
    hardware = report.hardware
    memory = units.size(hardware.memory_bytes)
    threads = f", {hardware.threads} threads" if hardware.threads and hardware.device == "cpu" else ""
    return f"{hardware.name} ({hardware.device}{threads}, {memory}), measured {report.date}"


def data(report: MachineReport) -> Table:
    """One row a ceiling, with raw values."""
    rows = [
        _data_row(kind, one)
        for kind in _SHOW
        for one in getattr(report, kind)
    ]  # fmt: skip
    return Table(_DATA, rows)


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
    shown = [[name, value] for name, value in facts if value is not None]
    return Table(_FACTS, [*shown, *(["note", note] for note in report.notes)], bare=True)


def _ceilings(kind: str, ceilings: Sequence[Ceiling]) -> Table:
    show = _SHOW[kind]
    columns = (
        Column(_NAMED),
        Column("best", "right", show),
        Column("median", "right", show),
        Column("spread", "right", show, drops=True),
        Column("bursts", "right", units.exact, drops=True),
        Column("at", shrinks=True),
    )
    return Table(columns, [_ceiling(one) for one in ceilings])


def _ceiling(one: Ceiling) -> list[object]:
    _, name, best, median, spread, repeats, at, why = _data_row("", one)
    return [name, best, median, spread, repeats, why or at]


def _data_row(kind: str, one: Ceiling) -> list[object]:
    how = one.median.how
    spread, repeats = (how.spread, how.repeats) if isinstance(how, Measured) else (None, None)
    return [kind, one.name, one.best.value, one.median.value, spread, repeats, one.at, _why(one.best)]


def _sensor(one: Sensor) -> list[object]:
    now = None if one.value is None else f"{one.value:.1f} {one.unit}"
    idle = None if one.idle_w.value is None else _watts(one.idle_w)
    return [one.name, one.measures, one.scope, one.period.value, one.read_s, now, idle, one.why]


def _watts(figure: Figure) -> str:
    if figure.value is None:
        return f"{units.UNKNOWN} ({_why(figure)})"
    spread = figure.how.spread if isinstance(figure.how, Measured) else None
    return f"{figure.value:.1f} W" + (f" ± {spread:.1f}" if spread is not None else "")


def _why(figure: Figure) -> str:
    return figure.how.why if isinstance(figure.how, Unknown) else ""


def _drawn(report: MachineReport, utf8: bool) -> list[str | Table]:
    peaks = {one.name: one.value for one in report.arithmetic if one.value}
    bandwidth = max((one.value for one in report.bandwidth if one.value), default=None)
    if not peaks or bandwidth is None:
        return []
    return ["Roofline", Table(_PICTURE, [list(line) for line in picture(peaks, bandwidth, utf8=utf8)], bare=True)]
