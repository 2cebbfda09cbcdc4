"""Moments, quantiles and histograms; used for counted values and for merged tiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from assay.document.weights import QUANTILES, Histogram

BINS = 64
NEAR_ZERO = 1e-3
"""A value is near zero if its magnitude is at most this share of the root mean square."""

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
        return math.sqrt(self.m2 / self.n)

    @property
    def skewness(self) -> float | None:
        """The skewness; None if all values are the same."""
        return finite_or_none(math.sqrt(self.n) * self.m3 / self.m2**1.5) if self.m2**1.5 else None

    @property
    def kurtosis(self) -> float | None:
        """The excess kurtosis (0 for a normal distribution); None if all values are the same."""
        return finite_or_none(self.n * self.m4 / self.m2**2 - 3) if self.m2**2 else None


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


def distribution(low: float, high: float, bins: Iterable[float]) -> dict[str, Any]:
    """The histogram and its entropy, which is the same for a type of any width and at most log2 of the count."""
    counts = tuple(map(int, bins))
    return {"histogram": Histogram(low, high, counts), "entropy_bits": entropy(np.array(counts))}


def coded_bytes(parts: Iterable[NDArray[Any]]) -> int:
    """The size that an order-0 coder reaches which codes each part of the values by itself.

    `parts` has the counts of the patterns of each part: of the values for 8- and 16-bit types, else of their 16-bit
    parts.
    """
    return math.ceil(sum(entropy(counts) * float(counts.sum()) for counts in parts) / 8)


def entropy(counts: NDArray[Any]) -> float:
    """The entropy of a distribution in bits; not part of the kernel, so that all builds agree to the last bit."""
    used = counts[counts > 0].astype(np.float64)
    if used.size < 2:
        return 0.0
    total = float(used.sum())
    return max(0.0, math.log2(total) - float((used * np.log2(used)).sum()) / total)


def histogram_edges(low: float, high: float) -> list[float]:
    """The inner edges of a histogram from `low` to `high`; empty if they are equal."""
    if not low < high:
        return []
    step = (high - low) / BINS if math.isfinite(high - low) else high / BINS - low / BINS
    return [index * step + low for index in range(1, BINS)]
