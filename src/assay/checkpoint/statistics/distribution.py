"""Moments, quantiles and histograms of merged tiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from assay.checkpoint.statistics.layout import BINS
from assay.document.weights import QUANTILES

Doubles = NDArray[np.float64]


class Moments(Struct, frozen=True):
    """Count, mean and sums of powers of the deviations from the mean."""

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
        """The standard deviation of the population."""
        return math.sqrt(self.m2 / self.n) if self.m2 >= 0 else math.nan

    @property
    def skewness(self) -> float | None:
        """The skewness; None if all values are the same."""
        spread = self.m2 * math.sqrt(self.m2)
        return finite_or_none(math.sqrt(self.n) * self.m3 / spread) if spread else None

    @property
    def kurtosis(self) -> float | None:
        """The excess kurtosis (0 for a normal distribution); None if all values are the same."""
        spread = self.m2 * self.m2  # a power would raise an exception if it overflowed
        return finite_or_none(self.n * self.m4 / spread - 3) if spread else None

    def repeated(self, times: int) -> Moments:
        """The moments if every value occurs `times` times."""
        return Moments(times * self.n, self.mean, times * self.m2, times * self.m3, times * self.m4)


def moment_statistics(moments: Moments, l1: float, energy: float) -> dict[str, float | None]:
    """Mean, std, skewness, kurtosis and the L1 and L2 norms; None for values that overflowed."""
    return {
        "mean": finite_or_none(moments.mean),
        "std": finite_or_none(moments.std),
        "skewness": moments.skewness,
        "kurtosis": moments.kurtosis,
        "l1": finite_or_none(l1),
        "l2": finite_or_none(math.sqrt(energy)),
    }


def finite_or_none(value: float) -> float | None:
    """The value, or None if it is not finite."""
    return value if math.isfinite(value) else None


def joined_moments(n: Doubles, mean: Doubles, m2: Doubles, m3: Doubles, m4: Doubles) -> Moments:
    """The joint moments of several tiles, by Pébay's formulas about the common mean."""
    total = float(n.sum())
    if not total:
        return Moments(0, 0.0, 0.0, 0.0, 0.0)
    if n.size == 1:
        return Moments(int(total), *(float(part[0]) for part in (mean, m2, m3, m4)))
    with np.errstate(over="ignore", invalid="ignore"):  # of extreme values, which are analysed again
        center = float((n / total * mean).sum())
        center += float((n / total * (mean - center)).sum())
        d = mean - center
        return Moments(
            int(total),
            center,
            exact_sum(m2) + exact_sum(n * d**2),
            exact_sum(m3) + exact_sum(3 * d * m2) + exact_sum(n * d**3),
            exact_sum(m4) + exact_sum(4 * d * m3) + exact_sum(6 * d**2 * m2) + exact_sum(n * d**4),
        )


def exact_sum(values: Iterable[float]) -> float:
    """The sum, rounded once; NaN if it overflows."""
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):
        return math.nan


def quantile_ranks(n: int) -> list[tuple[int, float]]:
    """For each quantile, the rank below it and the fraction of the way to the next rank."""
    positions = [share * (n - 1) for share in QUANTILES]
    return [(min(int(position), n - 1), position - int(position)) for position in positions]


def quantiles_from(ranks: Sequence[tuple[int, float]], values: dict[int, float]) -> tuple[float, ...]:
    """The quantiles, interpolated between the values at their neighbouring ranks."""
    return tuple(
        values[rank] + part * (values[rank + 1] - values[rank]) if part else float(values[rank])
        for rank, part in ranks
    )


def ranks_needed(ranks: Sequence[tuple[int, float]]) -> list[int]:
    """The sorted ranks whose values are needed to interpolate the quantiles."""
    return sorted({rank for rank, _ in ranks} | {rank + 1 for rank, part in ranks if part})


def histogram_edges(low: float, high: float) -> list[float]:
    """The inner edges of a histogram from `low` to `high`; empty if they are equal."""
    if not low < high:
        return []
    step = (high - low) / BINS if math.isfinite(high - low) else high / BINS - low / BINS
    return [index * step + low for index in range(1, BINS)]


def code_bytes(bits: Iterable[float]) -> int:
    """The size that an order-0 coder reaches, from the bits of each part of the values."""
    # Rounded first, so that another order of summation does not add a byte.
    return math.ceil(round(sum(bits) / 8, 6))
