"""Whether a value became smaller or larger, given how exactly it is known."""

from __future__ import annotations

from assay.document.provenance import Figure, Measured, Modelled

LESS, MORE, EQUAL, NOT_SIGNIFICANT, UNKNOWN = "less", "more", "equal", "not significant", "unknown"
"""`not significant`: the ranges of the two values overlap. `unknown`: a value or its range is unknown."""

Range = tuple[float, float]


def figure_verdict(before: Figure, after: Figure) -> str:
    """How a figure changed; measured and modelled ones only differ if their ranges do not overlap."""
    if before.value is None or after.value is None:
        return UNKNOWN
    if before == after:
        return EQUAL
    return range_verdict(_range(before), _range(after))


def range_verdict(before: Range | None, after: Range | None) -> str:
    """How a value changed that lies in these ranges; None stands for an unknown range."""
    if before is None or after is None:
        return UNKNOWN
    if before[1] < after[0]:
        return MORE
    if after[1] < before[0]:
        return LESS
    return EQUAL if before == after and before[0] == before[1] else NOT_SIGNIFICANT


def _range(figure: Figure) -> Range | None:
    """The range that a figure lies in: the value itself if it is exact, None if it was measured only once."""
    value, how = figure.value or 0, figure.how  # whole numbers stay exact beyond 2**53
    if isinstance(how, Measured):
        return how.range
    factors = how.factors if isinstance(how, Modelled) else None
    return (value, value) if factors is None else (value * factors[0], value * factors[1])
