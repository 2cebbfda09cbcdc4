"""Carbon dioxide and price of energy, from grid intensities with source and year, data-centre overhead and a tariff.

The grid is always given by the user, never inferred.
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

_GRAMS = re.compile(r"(\d+(?:\.\d+)?)\s*g(?:/kwh)?", re.IGNORECASE)


class PowerGrid(Struct, frozen=True, omit_defaults=True):
    """The carbon intensity of a power grid, as a yearly mean."""

    code: str
    name: str
    g_per_kwh: float
    year: int | None = None
    source: str = ""
    """Title of the publication."""


@cache
def grids() -> tuple[PowerGrid, ...]:
    """Every grid in the built-in table."""
    data = files("assay.analysis").joinpath("grid.json").read_bytes()
    return msgspec.json.decode(data, type=tuple[PowerGrid, ...])


def find_grid(text: str) -> PowerGrid:
    """The grid called `FR`, `US-CA` or `france`, or one with the given intensity: `400g` (per kilowatt-hour)."""
    plain = text.strip()
    grams = _GRAMS.fullmatch(plain)
    if grams is not None:
        return PowerGrid(plain, "a custom grid", float(grams[1]), source="user input")
    names = {name.lower(): grid for grid in grids() for name in (grid.code, grid.name)}
    if plain.lower() in names:
        return names[plain.lower()]
    near = get_close_matches(plain.lower(), names, n=4, cutoff=0.6)
    shown = ", ".join(dict.fromkeys(names[each].code for each in near)) or "FR, DE, US, US-CA, WORLD"
    raise UsageError(f"unknown grid {text!r}: expected {shown}, or grams per kilowatt-hour such as 400g")


def carbon_g(energy_j: Figure, grid: PowerGrid, pue: float = 1.0) -> Figure:
    """Grams of carbon dioxide for that energy; always modelled, even if the energy was measured."""
    _check_pue(pue)
    if energy_j.value is None:
        return energy_j
    when = f", {grid.year}" if grid.year else ""
    assumptions = (
        f"{grid.g_per_kwh:g} g/kWh, the yearly mean of {grid.name} ({grid.source}{when})",
        "no data-centre overhead (PUE 1)" if pue == 1.0 else f"data-centre overhead: PUE {pue:g}",
        *(energy_j.how.assumptions if isinstance(energy_j.how, Modelled) else ()),
    )
    value = energy_j.value / J_PER_KWH * pue * grid.g_per_kwh
    return Figure(value, _modelled(f"{_method(energy_j)} × grid intensity", assumptions, energy_j))


def price(energy_j: Figure, per_kwh: float, *, pue: float = 1.0) -> Figure:
    """The price of a million times that energy, in the currency of `per_kwh`."""
    _check_pue(pue)
    if not per_kwh >= 0:
        raise UsageError(f"invalid price {per_kwh:g}: a price per kilowatt-hour must be 0 or more")
    if energy_j.value is None:
        return energy_j
    assumptions = (f"{per_kwh:g} per kilowatt-hour, electricity only", *([f"PUE {pue:g}"] if pue != 1.0 else []))
    value = energy_j.value * MILLION / J_PER_KWH * pue * per_kwh
    return Figure(value, _modelled(f"{_method(energy_j)} × price", assumptions, energy_j))


def _check_pue(pue: float) -> None:
    if not pue >= 1:
        raise UsageError(f"invalid PUE {pue:g}: must be 1 or more (energy of the data centre ÷ that of its machines)")


def _method(figure: Figure) -> str:
    return "energy" if isinstance(figure.how, Unknown) else figure.how.by


def _modelled(by: str, assumptions: tuple[str, ...], energy_j: Figure) -> Modelled:
    """A multiple of an energy, with its error and its interval."""
    interval = energy_j.how.interval if isinstance(energy_j.how, Modelled) else None
    return Modelled(by, assumptions, _relative_error(energy_j), interval)


def _relative_error(figure: Figure) -> float | None:
    """The relative error: the error of a model, or the spread of a measurement."""
    if isinstance(figure.how, Modelled):
        return figure.how.error
    if isinstance(figure.how, Measured) and figure.how.spread is not None and figure.value:
        return figure.how.spread / figure.value
    return None
