"""Tables of a model's energy use, and of the machine's load during the run."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

from assay import units
from assay.analysis.carbon import MILLION
from assay.document.document import Document
from assay.document.machine import MonitorRecording, Series, Thermal
from assay.document.profile import EnergyPart, EnergyProfile, KindEnergy
from assay.document.rows import OpKind
from assay.machine.sensors.nvml import THROTTLES
from assay.views.tables import Column, Table, percent
from assay.views.text.amounts import part_of
from assay.views.text.facts import reasons_table
from assay.views.text.figures import FigureFact, fact, figures_table, how
from assay.views.text.report import Parts, section


class _KindRow(NamedTuple):
    """A kind of op, its energy, and its share of the energy of the pass."""

    kind: OpKind
    energy: KindEnergy
    total: float
    share: float | None


class _SeriesRow(NamedTuple):
    """A monitored metric as text. A counter has a rate (in `mean`) and a total, other metrics a mean and a peak."""

    series: Series
    mean: str = ""
    peak: str = ""
    total: str = ""


_KINDS: tuple[Column[_KindRow], ...] = (
    Column("op", lambda row: row.kind.name, show=units.op, shrinks=True, cuts="middle"),
    Column("inputs", lambda row: units.shapes(one.type.shape for one in row.kind.inputs), shrinks=True, keeps=-8),
    Column("count", lambda row: row.energy.count, "right", units.exact),
    Column("per op", lambda row: row.energy.each.value, "right", units.joules, name="each J"),
    Column("total", lambda row: row.total, "right", units.joules, name="total J"),
    Column("share", lambda row: row.share, "right", percent),
    Column(
        "method", lambda row: how(row.energy.each), show=lambda text: text.partition(":")[0], drops=True, name="how"
    ),
)
_SERIES: tuple[Column[_SeriesRow], ...] = (
    Column("metric", lambda row: row.series.name, name="what"),
    Column("scope", lambda row: row.series.scope, drops=True, name="of"),
    Column("mean", lambda row: row.mean, "right"),
    Column("peak", lambda row: row.peak, "right"),
    Column("total", lambda row: row.total, "right", name="in all"),
    Column("samples", lambda row: len(row.series.known), "right", units.exact, drops=True),
)
_CORE = re.compile(r"cpu\.\d+\.")
_CORES = 4
"""If there are more CPU cores than this, the screen omits the metrics of single cores."""
_COUNTERS = ("process.switches.", "process.read", "process.written", "disk.", "network.", "cache.")
"""Name prefixes of metrics that count up from the start of the recording."""

_FORMATS: dict[str, Callable[[float], str]] = {
    "B": units.size,
    "share": percent,
    "1": units.count,
    "W": units.watts,
    "MHz": lambda value: units.count(1e6 * value, "Hz"),
}
"""Formatters by unit; values of any other unit are followed by the unit's name."""


def energy_facts(energy: EnergyProfile) -> Parts:
    """Energy, power, CO2 and cost of one pass, each with how it was obtained; then what is unknown, and why."""
    rows = [
        fact("energy per pass", energy.whole, units.joules),
        fact("above idle", energy.above_idle, units.joules),
        fact("average power", energy.average_w, units.watts),
        fact("peak power", energy.peak_w, units.watts),
        fact("idle power", energy.idle_w, units.watts),
        fact("FLOPs per joule", energy.flops_per_joule, units.count),
        fact("CO2 per million passes", energy.carbon_g, _grams_per_million),
        fact("cost per million passes", energy.price, units.ratio),
    ]
    if energy.sensor:
        rows.append(fact("energy per pass (modelled)", energy.modelled, units.joules))
        rows += _thermal_facts(energy.thermal)
    elif energy.why:
        rows.append(FigureFact("sensor", units.UNKNOWN, energy.why))
    if energy.kinds:
        rows.append(fact("sum of op energies ÷ pass energy", energy.closure, units.ratio))
    if energy.scale.value is not None:
        rows.append(fact("op energies multiplied by", energy.scale, units.ratio))
    rows += [_part_fact(part, energy.whole.value) for part in energy.remainder]
    known = [row for row in rows if row.value != units.UNKNOWN]
    return [figures_table(known), *section("Unknown about energy", reasons_table(_unknown(rows), bare=True))]


def _unknown(rows: Sequence[FigureFact]) -> list[tuple[str, str]]:
    """The unknown figures by their reason."""
    names: dict[str, list[str]] = {}
    for row in rows:
        if row.value == units.UNKNOWN:
            names.setdefault(row.split[1], []).append(row.name)
    return [(", ".join(each), why) for why, each in names.items()]


def _part_fact(part: EnergyPart, whole: float | None) -> FigureFact:
    """A part of the remainder, with its share of the energy of the pass."""
    name, energy = f"not in op energies: {part.name}", part.energy
    share = part_of(energy.value, whole)
    text = units.joules(energy.value)
    return FigureFact(name, text if share is None else f"{text} ({percent(share)})", how(energy))


def _thermal_facts(thermal: Thermal) -> list[FigureFact]:
    """The temperature before, after and at most, and whether the device was throttled."""
    figures = (thermal.start_c, thermal.end_c, thermal.max_c)
    known = any(figure.value is not None for figure in figures)
    degrees = ", ".join(_degrees(figure.value) for figure in figures) if known else units.UNKNOWN
    none = units.UNKNOWN if thermal.throttled.value is None else "none"
    throttling = f"throttled: {', '.join(thermal.throttles)}" if thermal.throttles else none
    limits = f" (limited by {', '.join(thermal.limits)})" if thermal.limits else ""
    return [
        FigureFact("temperature: start, end, max", degrees, how(thermal.max_c)),
        FigureFact("throttling", throttling + limits, how(thermal.throttled)),
    ]


def _degrees(value: float | None) -> str:
    return units.UNKNOWN if value is None else f"{value:.0f} °C"


def energy_title(energy: EnergyProfile) -> str:
    """`measured by nvml`, or `modelled: no usable sensor on this machine`."""
    if energy.sensor:
        return f"measured by {energy.sensor}"
    return f"{type(energy.whole.how).__name__.lower()}: no usable sensor on this machine"


def _grams_per_million(grams: float | None) -> str:
    return units.UNKNOWN if grams is None else f"{units.ratio(grams * MILLION)} g"


def energy_table(document: Document, energy: EnergyProfile) -> Table:
    """One row per kind of op whose energy is known, highest total first.

    Shares are of the pass, or of the sum of the ops if that is larger: a replay may wait longer than the pass does.
    """
    known = [
        (kind, row, row.each.value * row.count)
        for kind, row in zip(document.kinds, energy.kinds, strict=False)
        if row is not None and row.each.value is not None
    ]
    whole = energy.whole.value and max(energy.whole.value, sum(total for _, _, total in known))
    rows = [_KindRow(kind, row, total, part_of(total, whole)) for kind, row, total in known]
    return Table(_KINDS, sorted(rows, key=lambda row: -row.total))


def system_table(recording: MonitorRecording, *, full: bool = False) -> Table:
    """One row per monitored metric; unless `full`, metrics of single CPU cores are omitted if there are many."""
    series = [one for one in recording.series if one.values]
    cores = [one for one in series if _CORE.match(one.name)]
    if len(cores) > _CORES and not full:
        series = [one for one in series if one not in cores]
    seconds = recording.times_s[-1] - recording.times_s[0] if recording.times_s else 0.0
    return Table(_SERIES, [_row(one, seconds) for one in series])


def _row(series: Series, seconds: float) -> _SeriesRow:
    if series.unit == "bits":
        return _SeriesRow(series, peak=_throttle_reasons(series))
    total = series.peak
    if not series.name.startswith(_COUNTERS):
        return _SeriesRow(series, _value_text(series.mean, series.unit), _value_text(total, series.unit))
    rate = units.UNKNOWN if total is None or not seconds else f"{_value_text(total / seconds, series.unit)}/s"
    return _SeriesRow(series, rate, total=_value_text(total, series.unit))


def _value_text(value: float | None, unit: str) -> str:
    if value is None:
        return units.UNKNOWN
    return _FORMATS[unit](value) if unit in _FORMATS else f"{units.ratio(value)} {unit}"


def _throttle_reasons(series: Series) -> str:
    """All reasons for which the GPU reduced its clocks at any time."""
    if not series.known:
        return units.UNKNOWN
    bits = reduce(or_, (int(value) for value in series.known))
    return ", ".join(name for bit, name in THROTTLES.items() if bits & bit) or "none"
