"""What follows from values and how often each occurs; counted types have all of it, wide ones parts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from assay.document.weights import QUANTILES

BINS = 64
NEAR_ZERO = 1e-3
"""Near zero is at most this share of the root mean square."""

Doubles = NDArray[np.float64]


class Moments(Struct, frozen=True):
    """Count, mean and sums of powers of the distance from it."""

    n: int
    mean: float
    m2: float
    m3: float
    m4: float

    @property
    def energy(self) -> float:
        """The sum of squares."""
        return self.m2 + self.n * self.mean * self.mean

    @property
    def std(self) -> float:
        """Of the population."""
        return math.sqrt(self.m2 / self.n)

    @property
    def skewness(self) -> float | None:
        """None where all values are the same."""
        return known(math.sqrt(self.n) * self.m3 / self.m2**1.5) if self.m2**1.5 else None

    @property
    def kurtosis(self) -> float | None:
        """In excess of a normal distribution's; None where all values are the same."""
        return known(self.n * self.m4 / self.m2**2 - 3) if self.m2**2 else None


def moment_figures(moments: Moments, l1: float, energy: float) -> dict[str, float | None]:
    """What the moments, the sum of magnitudes and that of squares tell; None where it left the range of a float."""
    return {
        "mean": known(moments.mean),
        "std": known(moments.std),
        "skewness": moments.skewness,
        "kurtosis": moments.kurtosis,
        "l1": known(l1),
        "l2": known(math.sqrt(energy)),
    }


def known(value: float) -> float | None:
    """The value, or None where it left the range of a float."""
    return value if math.isfinite(value) else None


def joined_moments(n: Doubles, mean: Doubles, m2: Doubles, m3: Doubles, m4: Doubles) -> Moments:
    """The moments of tiles taken together, by Pébay's formulas about the common mean."""
    total = float(n.sum())
    if not total:
        return Moments(0, 0.0, 0.0, 0.0, 0.0)
    if n.size == 1:
        return Moments(int(total), *(float(part[0]) for part in (mean, m2, m3, m4)))
    center = float((n / total * mean).sum())
    center += float((n / total * (mean - center)).sum())
    d = mean - center
    return Moments(
        int(total),
        center,
        math.fsum(m2) + math.fsum(n * d**2),
        math.fsum(m3) + math.fsum(3 * d * m2) + math.fsum(n * d**3),
        math.fsum(m4) + math.fsum(4 * d * m3) + math.fsum(6 * d**2 * m2) + math.fsum(n * d**4),
    )


def quantile_ranks(n: int) -> list[tuple[int, float]]:
    """For each quantile the rank below it and how far it lies towards the next."""
    places = [share * (n - 1) for share in QUANTILES]
    return [(min(int(place), n - 1), place - int(place)) for place in places]


def quantiles_from(ranks: Sequence[tuple[int, float]], values: dict[int, float]) -> tuple[float, ...]:
    """The quantiles from the values of the ranks they lie between."""
    return tuple(
        values[rank] + part * (values[rank + 1] - values[rank]) if part else float(values[rank])
        for rank, part in ranks
    )


def ranks_needed(ranks: Sequence[tuple[int, float]]) -> list[int]:
    """The ranks whose values the quantiles need."""
    return sorted({rank for rank, _ in ranks} | {rank + 1 for rank, part in ranks if part})


def histogram_edges(low: float, high: float) -> list[float]:
    """The edges inside a histogram; none where there is one bin."""
    if not low < high:
        return []
    step = (high - low) / BINS if math.isfinite(high - low) else high / BINS - low / BINS
    return [place * step + low for place in range(1, BINS)]
