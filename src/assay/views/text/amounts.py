"""Two ways to write a figure: rounded to what a person takes in, or to the last digit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from assay import units


@dataclass(frozen=True)
class Amounts:
    """How counts and bytes are written."""

    count: Callable[[int | None], str]
    size: Callable[[int | None], str]


def percent(part: float | None) -> str:
    """A part of one as a percentage: `percent(0.125) == "12.5 %"`."""
    return units.share(part, 1)


def part_of(part: float | None, whole: float | None) -> float | None:
    """The share of `part` in `whole`, where both are known and there is a whole."""
    return part / whole if part is not None and whole else None


_ROUNDED = Amounts(units.count, units.size)
_EXACT = Amounts(units.exact, lambda value: units.UNKNOWN if value is None else f"{value:,} B")


def amounts(exact: bool) -> Amounts:
    """The way that was asked for."""
    return _EXACT if exact else _ROUNDED
