"""Formatting of counts and bytes: rounded to three digits, or exact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from assay import units
from assay.document.cost import CostTotals


@dataclass(frozen=True)
class Amounts:
    """A pair of formatters, for counts and for bytes."""

    count: Callable[[int | None], str]
    size: Callable[[int | None], str]


def if_recorded(amount: int, sums: CostTotals) -> int | None:
    """`amount`, a sum of `sums`; None if no op was recorded, so that it is unknown."""
    return amount if sums.recorded else None


def part_of(part: float | None, whole: float | None) -> float | None:
    """`part` divided by `whole`; None if either is unknown or `whole` is zero."""
    return part / whole if part is not None and whole else None


_ROUNDED = Amounts(units.count, units.size)
_EXACT = Amounts(units.exact, lambda value: units.UNKNOWN if value is None else f"{value:,} B")


def amounts(exact: bool) -> Amounts:
    """The exact formatters, or those that round to three digits."""
    return _EXACT if exact else _ROUNDED
