"""From energy to carbon dioxide and money: grids with their source and year, overhead of a building, a price.

Where the energy is used is never guessed; whoever asks names a grid.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct

from assay.document.provenance import Figure, Measured, Modelled, Unknown
from assay.errors import UsageError

J_PER_KWH = 3.6e6
MILLION = 1_000_000

_GIVEN = re.compile(r"(\d+(?:\.\d+)?)\s*g(?:/kwh)?", re.IGNORECASE)


class PowerGrid(Struct, frozen=True, omit_defaults=True):
    """How much carbon dioxide a grid gives off for each unit of energy, over a year."""

    code: str
    name: str
    g_per_kwh: float
    year: int | None = None
    source: str = ""
    """The title of the text it comes from."""


@cache
def grids() -> tuple[PowerGrid, ...]:
    """Every grid there are figures for."""
    data = files("assay.analysis").joinpath("grid.json").read_bytes()
    return msgspec.json.decode(data, type=tuple[PowerGrid, ...])


def find_grid(text: str) -> PowerGrid:
    """The grid of `FR`, `US-CA`, `france`, or one given as `400g` a kilowatt-hour."""
    plain = text.strip()
    given = _GIVEN.fullmatch(plain)
    if given is not None:
        return PowerGrid(plain, "as given", float(given[1]), source="as given")
    names = {name.lower(): grid for grid in grids() for name in (grid.code, grid.name)}
    if plain.lower() in names:
        return names[plain.lower()]
    near = get_close_matches(plain.lower(), names, n=4, cutoff=0.6)
    shown = ", ".join(dict.fromkeys(names[each].code for each in near)) or "FR, DE, US, US-CA, WORLD"
    raise UsageError(f"no grid is called {text!r}: say {shown}, or give grams a kilowatt-hour as 400g")


def carbon_g(energy_j: Figure, grid: PowerGrid, pue: float = 1.0) -> Figure:
    """Grams of carbon dioxide for that energy; modelled, however the energy was obtained."""
    _check(pue, 1.0, "a PUE is 1 or more: all energy of a building over that of its machines")
    if energy_j.value is None:
        return energy_j
    when = f", {grid.year}" if grid.year else ""
    assumptions = (
        f"{grid.g_per_kwh:g} g/kWh, the yearly mean of {grid.name} ({grid.source}{when})",
        "no energy of the building is added" if pue == 1.0 else f"a building that takes {pue:g} times its machines",
        *(energy_j.how.assumptions if isinstance(energy_j.how, Modelled) else ()),
    )
    value = energy_j.value / J_PER_KWH * pue * grid.g_per_kwh
    return Figure(value, Modelled(f"{_by(energy_j)} × grid intensity", assumptions, _error(energy_j)))


def price(energy_j: Figure, per_kwh: float, *, pue: float = 1.0) -> Figure:
    """What a million times that energy costs, in the currency of the price."""
    _check(pue, 1.0, "a PUE is 1 or more: all energy of a building over that of its machines")
    _check(per_kwh, 0.0, "a price a kilowatt-hour is not negative")
    if energy_j.value is None:
        return energy_j
    assumptions = (f"{per_kwh:g} a kilowatt-hour, electricity alone", *([f"PUE {pue:g}"] if pue != 1.0 else []))
    value = energy_j.value * MILLION / J_PER_KWH * pue * per_kwh
    return Figure(value, Modelled(f"{_by(energy_j)} × price", assumptions, _error(energy_j)))


def _check(value: float, least: float, wanted: str) -> None:
    if not value >= least:
        raise UsageError(f"{value:g} was given: {wanted}")


def _by(figure: Figure) -> str:
    return "energy" if isinstance(figure.how, Unknown) else figure.how.by


def _error(figure: Figure) -> float | None:
    """Relative: that of a model, or the spread of a measurement."""
    if isinstance(figure.how, Modelled):
        return figure.how.error
    if isinstance(figure.how, Measured) and figure.how.spread is not None and figure.value:
        return figure.how.spread / figure.value
    return None
