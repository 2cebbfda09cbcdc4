"""Which polynomials can be dropped from a minimum or a maximum, proven from their coefficients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations

from assay.analysis.laws.polynomials import Polynomial


def never_above(lower: Polynomial, upper: Polynomial, limits: Mapping[str, int]) -> bool:
    """Whether `lower` is provably at most `upper` for all sizes from 1 to the limits; False if not proven."""
    gap = upper + -lower
    if all(value >= 0 for value in gap.from_one().terms.values()):
        return True
    largest = [limits.get(name) for name in gap.variables]
    least = Fraction(0)
    for powers, value in gap.terms.items():
        if value > 0:
            least += value
        elif any(power and size is None for power, size in zip(powers, largest, strict=True)):
            return False
        else:
            least += Polynomial(gap.variables, {powers: value}).at([size or 1 for size in largest])
    return least >= 0


def possible_maxima(candidates: Sequence[Polynomial]) -> list[Polynomial]:
    """The candidates that the maximum of all depends on; the rest are provably never the largest for sizes from 1."""
    kept: list[Polynomial] = []
    for candidate in candidates:
        if not any(never_above(candidate, other, {}) for other in kept):
            kept = [other for other in kept if not never_above(other, candidate, {})] + [candidate]
    for candidate in kept.copy():
        others = [other for other in kept if other is not candidate]
        if any(_below_a_mean(candidate, *pair) for pair in combinations(others, 2)):
            kept.remove(candidate)
    return kept


def _below_a_mean(candidate: Polynomial, first: Polynomial, second: Polynomial) -> bool:
    """Whether the candidate is at most some weighted mean of two others, and therefore at most the larger of them."""
    goal, left, right = (each.from_one().terms for each in (candidate, first, second))
    low, high = Fraction(0), Fraction(1)
    for powers in {*goal, *left, *right}:
        middle, one, other = (terms.get(powers, Fraction(0)) for terms in (goal, left, right))
        missing, slope = middle - other, one - other
        if slope == 0 and missing > 0:
            return False
        if slope > 0:
            low = max(low, missing / slope)
        elif slope < 0:
            high = min(high, missing / slope)
    return low <= high
