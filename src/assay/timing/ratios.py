"""The ratio of two times that were measured in rounds: its interval, and the verdict that follows from it.

Disturbances last longer than a pass, so that passes are not independent. The bootstrap therefore resamples
consecutive blocks of rounds and not single passes, which would give intervals that are too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.document.trials import FASTER, INCONCLUSIVE, SAME, SLOWER

MARGIN = 0.02
"""A smaller difference does not count, however precisely it was measured."""
NOISY = 0.05
"""If the noise alone exceeds this share, rounds cannot show that there is no difference."""
LEVEL = 0.99
FEWEST = 4
"""The fewest rounds that have an interval."""
_BLOCKS = 12
_STUDENT = (5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106)
"""Student's quantiles at `LEVEL` for 4 to 12 blocks: the bootstrap takes the variance of few blocks as exact."""
_NORMAL = 2.576
_RESAMPLES = 2000


class RatioInterval(NamedTuple):
    """The median ratio and its interval."""

    middle: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the width of the interval, as a share of the ratio."""
        return math.sqrt(self.high / self.low) - 1 if self.low else math.inf


def ratio_interval(logs: Sequence[Sequence[float]]) -> RatioInterval:
    """The interval of the median ratio from the logarithms of the ratios in each round, in the order they ran."""
    blocks = _blocks(len(logs))
    values = np.array([value for each in logs for value in each])
    owners = np.array([block for block, each in zip(blocks, logs, strict=True) for _ in each])
    count = int(blocks[-1]) + 1
    drawn = np.random.default_rng(0).multinomial(count, [1 / count] * count, _RESAMPLES)
    tail = (1 - LEVEL) / 2
    middle = float(np.median(values))
    low, high = np.quantile(_medians(values, drawn[:, owners]), [tail, 1 - tail])
    wider = _STUDENT[count - FEWEST] / _NORMAL * math.sqrt(count / (count - 1))
    # Few resampled medians differ, so that one end alone can happen to be close.
    reach = wider * max(middle - low, high - middle)
    return RatioInterval(*(math.exp(value) for value in (middle, middle - reach, middle + reach)))


def verdict_of(ratio: RatioInterval, null: RatioInterval) -> str:
    """What an interval shows; the margin is at least the noise: half the interval of the original against itself."""
    margin = 1 + max(MARGIN, null.half_width)
    if ratio.low > margin:
        return FASTER
    if ratio.high < 1 / margin:
        return SLOWER
    within = 1 / margin <= ratio.low and ratio.high <= margin
    return SAME if within and margin <= 1 + NOISY else INCONCLUSIVE


def _blocks(rounds: int) -> NDArray[np.intp]:
    """The block of each round: 4 to 12 consecutive blocks, of at least two rounds each if there are enough."""
    count = min(_BLOCKS, rounds // 2 if rounds >= 2 * FEWEST else rounds)
    return np.arange(rounds) * count // rounds


def _medians(values: NDArray[np.float64], weights: NDArray[np.int64]) -> NDArray[np.float64]:
    """The median of `values` under each row of `weights`."""
    order = np.argsort(values)
    reached = np.cumsum(weights[:, order], axis=1)
    half = reached[:, -1:] / 2
    lower, upper = (reached >= half).argmax(axis=1), (reached > half).argmax(axis=1)
    middle: NDArray[np.float64] = (values[order][lower] + values[order][upper]) / 2
    return middle
