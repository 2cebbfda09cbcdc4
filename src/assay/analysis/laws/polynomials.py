"""Exact polynomials in several variables, and interpolation on a grid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from math import comb, prod
from operator import getitem

from msgspec import Struct

Sizes = tuple[int, ...]
"""One size per variable, in the variables' order."""

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class Polynomial(Struct, frozen=True):
    """`Polynomial(("batch", "seq"), {(1, 2): Fraction(24)})` is `24·batch·seq²`; no coefficient is zero."""

    variables: tuple[str, ...]
    terms: dict[tuple[int, ...], Fraction]
    """Coefficients by the powers of the variables, the highest powers first."""

    def at(self, sizes: Sequence[int]) -> Fraction:
        """The value at these sizes."""
        values = (
            value * prod(size**power for size, power in zip(sizes, powers, strict=True))
            for powers, value in self.terms.items()
        )
        return sum(values, start=Fraction(0))

    def __add__(self, other: Polynomial) -> Polynomial:
        terms = dict(self.terms)
        for powers, value in other.terms.items():
            terms[powers] = terms.get(powers, Fraction(0)) + value
        return polynomial(self.variables, terms)

    def __neg__(self) -> Polynomial:
        return Polynomial(self.variables, {powers: -value for powers, value in self.terms.items()})

    def from_one(self) -> Polynomial:
        """The polynomial with every variable shifted by 1: `p.from_one().at((0, 2)) == p.at((1, 3))`."""
        terms: dict[tuple[int, ...], Fraction] = {}
        for powers, value in self.terms.items():
            for lower in product(*(range(power + 1) for power in powers)):
                terms[lower] = terms.get(lower, Fraction(0)) + value * prod(map(comb, powers, lower))
        return polynomial(self.variables, terms)

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        first, *rest = self.terms.items()
        text = ("−" if first[1] < 0 else "") + self._term(*first)
        return text + "".join(f" {'−' if value < 0 else '+'} {self._term(powers, value)}" for powers, value in rest)

    def _term(self, powers: tuple[int, ...], value: Fraction) -> str:
        """A term without its sign: `1,024·batch·seq²`."""
        size = abs(value)
        number = f"{size.numerator:,}" + (f"/{size.denominator:,}" if size.denominator > 1 else "")
        names = [
            name + (str(power).translate(_SUPERSCRIPTS) if power > 1 else "")
            for name, power in zip(self.variables, powers, strict=True)
            if power
        ]
        return "·".join(names if names and size == 1 else [number, *names])


def polynomial(variables: Sequence[str], terms: Mapping[tuple[int, ...], Fraction]) -> Polynomial:
    """The polynomial with these terms, without zeros, highest powers first."""
    kept = {powers: value for powers, value in terms.items() if value}
    order = sorted(kept, key=lambda powers: (sum(powers), max(powers, default=0), powers), reverse=True)
    return Polynomial(tuple(variables), {powers: kept[powers] for powers in order})


def grid(nodes: Sequence[Iterable[int]]) -> list[Sizes]:
    """All combinations of the nodes of each variable."""
    return list(product(*nodes))


def interpolate(variables: Sequence[str], nodes: Sequence[tuple[int, ...]], values: Sequence[int]) -> Polynomial:
    """The interpolating polynomial: it has `values` at the points of the grid, in `grid` order."""
    terms: dict[tuple[int, ...], Fraction] = {}
    for row, value in zip(_rows(tuple(nodes)), values, strict=True):
        if value:
            for powers, factor in row.items():
                terms[powers] = terms.get(powers, Fraction(0)) + value * factor
    return polynomial(variables, terms)


@cache
def _rows(nodes: tuple[tuple[int, ...], ...]) -> list[dict[tuple[int, ...], Fraction]]:
    """For each point of the grid, the terms of the polynomial that is 1 there and 0 at all other points."""
    rows = []
    for factors in product(*map(_lagrange, nodes)):
        every = product(*(range(len(each)) for each in nodes))
        terms = {powers: prod(map(getitem, factors, powers), start=Fraction(1)) for powers in every}
        rows.append({powers: value for powers, value in terms.items() if value})
    return rows


@cache
def _lagrange(nodes: tuple[int, ...]) -> list[list[Fraction]]:
    """For each node, the coefficients, lowest first, of the polynomial that is 1 there and 0 at the other nodes."""
    rows = []
    for index, node in enumerate(nodes):
        row = [Fraction(1)]
        for other in nodes[:index] + nodes[index + 1 :]:
            raised, lowered = [Fraction(0), *row], [*(value * other for value in row), Fraction(0)]
            row = [(high - low) / (node - other) for high, low in zip(raised, lowered, strict=True)]
        rows.append(row)
    return rows
