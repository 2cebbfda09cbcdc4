"""Formatting of counts and bytes: rounded to three digits, or exact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from assay import units


@dataclass(frozen=True)
class Amounts:
    """A pair of formatters, for counts and for bytes."""

    count: Callable[[int | None], str]
    size: Callable[[int | None], str]


def part_of(part: float | None, whole: float | None) -> float | None:
    """`part` divided by `whole`; None if either is unknown or `whole` is zero."""
    return part / whole if part is not None and whole else None


_ROUNDED = Amounts(units.count, units.size)
_EXACT = Amounts(units.exact, lambda value: units.UNKNOWN if value is None else f"{value:,} B")


def amounts(exact: bool) -> Amounts:
    """The exact formatters, or those that round to three digits."""
    return _EXACT if exact else _ROUNDED
