"""The JSON of scaling formulas: exact coefficients, and every formula also as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from msgspec import Struct

from assay.analysis.laws.law import Law, Laws, VerifiedRange
from assay.analysis.laws.polynomials import Polynomial
from assay.analysis.laws.samples import QUANTITIES


class Term(Struct, frozen=True):
    """One term of a polynomial: its coefficient and the power of each variable."""

    coefficient: int | str
    """An integer, or a fraction as text: `"1/2"`."""
    powers: dict[str, int]


class PartEntry(Struct, frozen=True):
    """One polynomial (`only`), or the `min` or `max` of several."""

    how: str
    of: list[list[Term]]


class LawValue(Struct, frozen=True):
    """The value of a scaling formula at given sizes."""

    at: dict[str, int]
    value: int | None
    compared: bool
    """Whether the sizes are within the range verified by recorded passes; otherwise the value is extrapolated."""


class LawEntry(Struct, frozen=True):
    """The scaling formula of one quantity as a sum of parts, or why there is none."""

    quantity: str
    title: str
    law: str | None
    parts: list[PartEntry]
    spans: dict[str, VerifiedRange]
    refused: str | None
    values: list[LawValue]


class LawsFile(Struct, frozen=True):
    """The scaling formulas of one model."""

    model: str
    variables: tuple[str, ...]
    base: dict[str, int]
    follows: dict[str, tuple[str, ...]]
    limits: dict[str, int]
    captured: tuple[dict[str, int], ...]
    mode: str
    inputs_from: str
    notes: tuple[str, ...]
    laws: list[LawEntry]


def laws_file(laws: Laws, points: Sequence[Mapping[str, int]] = ()) -> LawsFile:
    """The JSON of the scaling formulas, with their values at `points`."""
    return LawsFile(
        model=laws.model,
        variables=laws.variables,
        base=laws.base,
        follows=laws.follows,
        limits=laws.limits,
        captured=laws.points,
        mode=laws.mode,
        inputs_from=laws.inputs_from,
        notes=laws.notes,
        laws=[_entry(laws, name, points) for name in laws],
    )


def _entry(laws: Laws, name: str, points: Sequence[Mapping[str, int]]) -> LawEntry:
    law = laws[name]
    return LawEntry(
        quantity=name,
        title=QUANTITIES[name].title,
        law=None if law is None else str(law),
        parts=[] if law is None else [PartEntry(part.how, [_terms(each) for each in part.of]) for part in law.parts],
        spans={} if law is None else law.spans,
        refused=laws.refused.get(name),
        values=[_value(law, point) for point in points],
    )


def _value(law: Law | None, point: Mapping[str, int]) -> LawValue:
    if law is None:
        return LawValue(dict(point), None, False)
    return LawValue(dict(point), law(**point), law.covers(**point))


def _terms(polynomial: Polynomial) -> list[Term]:
    return [
        Term(_number(value), dict(zip(polynomial.variables, powers, strict=True)))
        for powers, value in polynomial.terms.items()
    ]


def _number(value: Fraction) -> int | str:
    return value.numerator if value.denominator == 1 else str(value)
