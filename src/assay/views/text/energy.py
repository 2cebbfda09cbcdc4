"""The tables of energy and of the machine while a model ran."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Any

from assay import units
from assay.analysis.carbon import MILLION
from assay.document.document import Document
from assay.document.machine import Recording, Series
from assay.document.profile import EnergyProfile
from assay.machine.sensors.nvml import THROTTLES
from assay.views.tables import Column, Table
from assay.views.text.figures import fact, how

_FACTS = (Column("what"), Column("value", "right"), Column("how", shrinks=True, drops=True))
_KINDS = (
    Column("op", shrinks=True, keeps=8),
    Column("inputs", shrinks=True, drops=True),
    Column("count", "right", units.exact),
    Column("each J", "right", units.joules),
    Column("total J", "right", units.joules),
    Column("share", "right", lambda share: units.share(share, 1)),
    Column("how", shrinks=True, drops=True),
)
_SERIES = (
    Column("what"),
    Column("of", drops=True),
    Column("mean", "right"),
    Column("peak", "right"),
    Column("in all", "right"),
    Column("samples", "right", units.exact, drops=True),
)
_CORE = re.compile(r"cpu\.\d+\.")
_CORES = 4
"""Cores that have a line each on the screen."""
_COUNTS = ("process.switches.", "process.read", "process.written", "disk.", "network.", "cache.")
"""How the names of counts since the beginning start."""

_WRITTEN: dict[str, Callable[[float], str]] = {
    "B": units.size,
    "share": lambda value: units.share(value, 1),
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
    return Table(_FACTS, rows, bare=True)


def energy_title(energy: EnergyProfile) -> str:
    """Whether it was measured or modelled, by what, and why no sensor was read."""
    if energy.sensor:
        return f"measured by {energy.sensor}"
    return f"{type(energy.whole.how).__name__.lower()}, for no sensor was read: {energy.why}"


def _grams_of_a_million(grams: float | None) -> str:
    return units.UNKNOWN if grams is None else f"{units.ratio(grams * MILLION)} g"


def energy_table(document: Document, energy: EnergyProfile) -> Table:
    """One row a kind of operation whose energy is known, the most first."""
    rows: list[list[Any]] = []
    for index, row in enumerate(energy.kinds):
        if row is None or row.each.value is None:
            continue
        kind = document.kinds[index]
        total = row.each.value * row.count
        share = total / energy.whole.value if energy.whole.value else None
        shapes = ", ".join(units.shape(operand.type.shape) for operand in kind.inputs)
        rows.append([kind.name, shapes, row.count, row.each.value, total, share, how(row.each)])
    rows.sort(key=lambda row: -float(row[4]))
    return Table(_KINDS, rows)


def system_table(recording: Recording, *, full: bool = False) -> Table:
    """One row a quantity that was watched; what could not be had is a dash. Many cores have lines only in full."""
    shown = [one for one in recording.series if one.values]
    cores = [one for one in shown if _CORE.match(one.name)]
    if len(cores) > _CORES and not full:
        shown = [one for one in shown if one not in cores]
    seconds = recording.times_s[-1] - recording.times_s[0] if recording.times_s else 0.0
    return Table(_SERIES, [_row(one, seconds) for one in shown])


def _row(series: Series, seconds: float) -> list[Any]:
    """A count since the beginning has a rate and a sum, anything else a mean and a peak."""
    if series.unit == "bits":
        return [series.name, series.scope, "", _reasons(series), "", len(series.known)]
    total = series.peak
    if not series.name.startswith(_COUNTS):
        texts = [_written(series.mean, series.unit), _written(total, series.unit), ""]
    elif total is None or not seconds:
        texts = [units.UNKNOWN, "", _written(total, series.unit)]
    else:
        texts = [f"{_written(total / seconds, series.unit)}/s", "", _written(total, series.unit)]
    return [series.name, series.scope, *texts, len(series.known)]


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
