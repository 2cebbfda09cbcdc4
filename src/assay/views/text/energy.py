"""The tables of energy and of the machine while a model ran."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import NamedTuple

from assay import units
from assay.analysis.carbon import MILLION
from assay.document.document import Document
from assay.document.machine import MonitorRecording, Series
from assay.document.profile import EnergyProfile, KindEnergy
from assay.document.rows import OpKind
from assay.machine.sensors.nvml import THROTTLES
from assay.views.tables import Column, Table
from assay.views.text.amounts import part_of, percent
from assay.views.text.figures import fact, figures_table, how


class _KindRow(NamedTuple):
    """A kind of operation and its energy."""

    kind: OpKind
    energy: KindEnergy
    total: float
    share: float | None


class _SeriesRow(NamedTuple):
    """What was watched; a count since the beginning has a rate and a sum, anything else a mean and a peak."""

    series: Series
    mean: str = ""
    peak: str = ""
    total: str = ""


_KINDS: tuple[Column[_KindRow], ...] = (
    Column("op", lambda row: row.kind.name, shrinks=True, keeps=8),
    Column("inputs", lambda row: units.shapes(one.type.shape for one in row.kind.inputs), shrinks=True, drops=True),
    Column("count", lambda row: row.energy.count, "right", units.exact),
    Column("each J", lambda row: row.energy.each.value, "right", units.joules),
    Column("total J", lambda row: row.total, "right", units.joules),
    Column("share", lambda row: row.share, "right", percent),
    Column("how", lambda row: how(row.energy.each), shrinks=True, drops=True),
)
_SERIES: tuple[Column[_SeriesRow], ...] = (
    Column("what", lambda row: row.series.name),
    Column("of", lambda row: row.series.scope, drops=True),
    Column("mean", lambda row: row.mean, "right"),
    Column("peak", lambda row: row.peak, "right"),
    Column("in all", lambda row: row.total, "right"),
    Column("samples", lambda row: len(row.series.known), "right", units.exact, drops=True),
)
_CORE = re.compile(r"cpu\.\d+\.")
_CORES = 4
"""Cores that have a line each on the screen."""
_COUNTS = ("process.switches.", "process.read", "process.written", "disk.", "network.", "cache.")
"""How the names of counts since the beginning start."""

_WRITTEN: dict[str, Callable[[float], str]] = {
    "B": units.size,
    "share": percent,
    "1": units.count,
    "W": units.watts,
    "MHz": lambda value: units.count(1e6 * value, "Hz"),
}
"""How values of a unit are written; those of others have it behind them."""


def energy_facts(energy: EnergyProfile) -> Table:
    """The figures of the whole pass, each with how it was obtained."""
    rows = [
        fact("one pass", energy.whole, units.joules),
        fact("above idle", energy.above_idle, units.joules),
        fact("average power", energy.average_w, units.watts),
        fact("peak power", energy.peak_w, units.watts),
        fact("idle power", energy.idle_w, units.watts),
        fact("FLOPs a joule", energy.flops_per_joule, units.count),
        fact("CO2 of a million passes", energy.carbon_g, _grams_of_a_million),
        fact("price of a million passes", energy.price, units.ratio),
    ]
    if energy.sensor:
        rows.append(fact("one pass, modelled", energy.modelled, units.joules))
        rows.append(fact("operations over the pass", energy.closure, units.ratio))
    return figures_table(rows)


def energy_title(energy: EnergyProfile) -> str:
    """Whether it was measured or modelled, by what, and why no sensor was read."""
    if energy.sensor:
        return f"measured by {energy.sensor}"
    return f"{type(energy.whole.how).__name__.lower()}, for no sensor was read: {energy.why}"


def _grams_of_a_million(grams: float | None) -> str:
    return units.UNKNOWN if grams is None else f"{units.ratio(grams * MILLION)} g"


def energy_table(document: Document, energy: EnergyProfile) -> Table:
    """One row per kind of operation whose energy is known, the most first."""
    rows = []
    for kind, row in zip(document.kinds, energy.kinds, strict=False):
        if row is not None and row.each.value is not None:
            total = row.each.value * row.count
            rows.append(_KindRow(kind, row, total, part_of(total, energy.whole.value)))
    return Table(_KINDS, sorted(rows, key=lambda row: -row.total))


def system_table(recording: MonitorRecording, *, full: bool = False) -> Table:
    """One row per quantity that was watched; an unknown is a dash. Many cores have rows only in full."""
    shown = [one for one in recording.series if one.values]
    cores = [one for one in shown if _CORE.match(one.name)]
    if len(cores) > _CORES and not full:
        shown = [one for one in shown if one not in cores]
    seconds = recording.times_s[-1] - recording.times_s[0] if recording.times_s else 0.0
    return Table(_SERIES, [_row(one, seconds) for one in shown])


def _row(series: Series, seconds: float) -> _SeriesRow:
    if series.unit == "bits":
        return _SeriesRow(series, peak=_reasons(series))
    total = series.peak
    if not series.name.startswith(_COUNTS):
        return _SeriesRow(series, _written(series.mean, series.unit), _written(total, series.unit))
    rate = units.UNKNOWN if total is None or not seconds else f"{_written(total / seconds, series.unit)}/s"
    return _SeriesRow(series, rate, total=_written(total, series.unit))


def _written(value: float | None, unit: str) -> str:
    if value is None:
        return units.UNKNOWN
    return _WRITTEN[unit](value) if unit in _WRITTEN else f"{units.ratio(value)} {unit}"


def _reasons(series: Series) -> str:
    """Why a board's clocks were held back at any time."""
    if not series.known:
        return units.UNKNOWN
    bits = reduce(or_, (int(value) for value in series.known))
    return ", ".join(name for bit, name in THROTTLES.items() if bits & bit) or "none"
