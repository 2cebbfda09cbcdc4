"""Figures as text: the value with its spread or its range, and how it was obtained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from assay.document.provenance import Figure, Measured, Modelled
from assay.views.tables import Column, Table

Show = Callable[[float | None], str]


class FigureFact(NamedTuple):
    """A figure in words: what it is, its value, and how it was obtained."""

    what: str
    value: str
    how: str


_FACTS: tuple[Column[FigureFact], ...] = (
    Column("what", lambda fact: fact.what),
    Column("value", lambda fact: fact.value, "right"),
    Column("how", lambda fact: fact.how, shrinks=True, drops=True),
)


def figures_table(facts: Sequence[FigureFact]) -> Table:
    """Figures without headings, each with how it was obtained."""
    return Table(_FACTS, facts, bare=True)


def fact(what: str, figure: Figure, show: Show) -> FigureFact:
    """The figure in words."""
    return FigureFact(what, shown(figure, show), how(figure))


def shown(figure: Figure, show: Show) -> str:
    """The value with its spread where it was measured, its range where it was modelled with a known error."""
    text = show(figure.value)
    if figure.value is None:
        return text
    if isinstance(figure.how, Measured) and figure.how.spread is not None:
        return f"{text} ± {show(figure.how.spread)}"
    if isinstance(figure.how, Modelled) and figure.how.error is not None:
        factor = 1 + figure.how.error
        return f"about {text} ({show(figure.value / factor)} to {show(figure.value * factor)})"
    return text


def how(figure: Figure) -> str:
    """How a figure was obtained, in words: measured by what, how often; counted or modelled from what; or why not."""
    kind = type(figure.how).__name__.lower()
    by = getattr(figure.how, "by", "") or getattr(figure.how, "why", "")
    repeats = f", {figure.how.repeats} times" if isinstance(figure.how, Measured) and figure.how.repeats > 1 else ""
    return f"{kind}: {by}{repeats}"


def spread(figure: Figure) -> float | None:
    """Half the interquartile range of a measured figure."""
    return figure.how.spread if isinstance(figure.how, Measured) else None
