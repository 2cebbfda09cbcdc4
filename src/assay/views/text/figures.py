"""Figures as text: the value with its spread or its range, and how it was obtained."""

from __future__ import annotations

from collections.abc import Callable

from assay.document.provenance import Figure, Measured, Modelled

Show = Callable[[float | None], str]


def fact(name: str, figure: Figure, show: Show) -> list[str]:
    """A line of facts: what it is, its value, and how it was obtained."""
    return [name, shown(figure, show), how(figure)]


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
