"""Figures as text: the value with its spread or range, and how it was obtained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from assay import units
from assay.analysis.achieved import NEITHER
from assay.document.provenance import Figure, Measured, Modelled
from assay.views.tables import Column, Table

Show = Callable[[float | None], str]


class FigureFact(NamedTuple):
    """A figure as text: its name, its value, and how it was obtained."""

    name: str
    value: str
    method: str

    @property
    def split(self) -> tuple[str, str]:
        """`measured` and by what; two texts if the method is in other words."""
        kind, _, by = self.method.partition(": ")
        return (kind, by) if kind in _METHODS else ("", self.method)


_METHODS = ("measured", "counted", "modelled", "unknown")


_FACTS: tuple[Column[FigureFact], ...] = (
    Column("name", lambda fact: fact.name, shrinks=True),
    Column("value", lambda fact: fact.value, "right"),
    Column("method", lambda fact: fact.split[0]),
    Column("by", lambda fact: fact.split[1], shrinks=True, drops=True),
)


def figures_table(facts: Sequence[FigureFact]) -> Table:
    """Named figures without headings, each with how it was obtained."""
    return Table(_FACTS, facts, bare=True)


def fact(name: str, figure: Figure, show: Show) -> FigureFact:
    """The figure as text, named `name`, its value formatted by `show`."""
    return FigureFact(name, shown(figure, show), how(figure))


def shown(figure: Figure, show: Show) -> str:
    """The value, with its range or spread if they are known."""
    text = show(figure.value)
    if figure.value is None:
        return text
    if isinstance(figure.how, Measured) and figure.how.range is not None:
        return f"{text} ({range_text(figure, show)})"
    if isinstance(figure.how, Measured) and figure.how.spread is not None:
        return f"{text} ± {show(figure.how.spread)}"
    factors = figure.how.factors if isinstance(figure.how, Modelled) else None
    if factors is None:
        return text
    low, high = (show(figure.value * factor) for factor in factors)
    return f"approx. {text} ({low} to {high})"


def how(figure: Figure) -> str:
    """How a figure was obtained: `measured: wall clock, 5 repeats`, `counted: …`, `modelled: …`, `unknown: why`."""
    by = getattr(figure.how, "by", "") or getattr(figure.how, "why", "")
    repeats = f", {figure.how.repeats} repeats" if isinstance(figure.how, Measured) and figure.how.repeats > 1 else ""
    return f"{method_name(figure)}: {by}{repeats}"


def method_name(figure: Figure) -> str:
    """`measured`, `counted`, `modelled` or `unknown`."""
    return type(figure.how).__name__.lower()


def spread(figure: Figure) -> float | None:
    """Half the interquartile range of a measured figure; None for any other."""
    return figure.how.spread if isinstance(figure.how, Measured) else None


def range_text(figure: Figure, show: Show) -> str:
    """The range of a measured figure in its run: `124 ms to 135 ms`; a dash if it has none."""
    if not isinstance(figure.how, Measured) or figure.how.range is None:
        return units.UNKNOWN
    low, high = figure.how.range
    return f"{show(low)} to {show(high)}"


def bottleneck(bound: str) -> str:
    """The bottleneck of an op as shown to people: `neither` reads `inefficient`."""
    return "inefficient" if bound == NEITHER else bound
