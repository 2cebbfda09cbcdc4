"""Bounds of the effective rank: exp of the entropy of σ²/Σσ², from a part of the spectrum.

Of two spectra with the same sum, the one whose partial sums (largest values first) are larger has less entropy. So a
spectrum whose partial sums are all at least, or all at most, the true ones is a bound.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


class EffectiveRank(NamedTuple):
    """The bounds of an effective rank; they are equal if the whole spectrum is known."""

    least: float
    most: float


def exact_rank(shares: Doubles) -> EffectiveRank:
    """The effective rank of a spectrum that is known as a whole: all shares of the sum of squares."""
    rank = _exp_entropy(shares)
    return EffectiveRank(rank, rank)


def rank_bounds(values: Doubles, bounds: list[float], rank: int) -> EffectiveRank:
    """The bounds that follow from Ritz values of AᵀA divided by its trace.

    Args:
        values: The Ritz values, largest first.
        bounds: Their residuals, of as many leading values as are to count as known, at least one.
        rank: The number of singular values.
    """
    most = _exp_entropy(_spread(values, rank))
    return EffectiveRank(min(_exp_entropy(_concentrated(values[: len(bounds)], bounds)), most), most)


def _spread(values: Doubles, rank: int) -> Doubles:
    """As even as it can be: no Ritz value exceeds the true one of its place, and the rest is spread evenly."""
    rest, known = 1.0, 0
    for value in values[:rank]:
        if value * (rank - known) <= rest:
            break
        rest, known = rest - value, known + 1
    others = rank - known
    return np.concatenate((values[:known], np.full(others, max(rest, 0.0) / others if others else 0.0)))


def _concentrated(known: Doubles, bounds: list[float]) -> Doubles:
    """As uneven as it can be: the rest lies in few directions, none of which has more than the largest value."""
    # Not more than the smallest known value would be wrong: of several equal singular values, an iteration finds one.
    limit = known[0] + bounds[0]
    rest, moved = max(0.0, 1.0 - float(known.sum())), math.fsum(bounds)
    full = int(rest / limit)
    shares = np.sort(np.concatenate((known, np.full(full, limit), [rest - full * limit])))[::-1]
    # The known part and the rest are coupled by the residuals, which raise partial sums by at most their own sum.
    sums = np.minimum(np.cumsum(shares) + moved, 1.0)
    return np.diff(sums, prepend=0.0)


def _exp_entropy(shares: Doubles) -> float:
    positive = shares[shares > 0]
    return math.exp(-float((positive * np.log(positive)).sum()))
