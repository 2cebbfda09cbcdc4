"""The variation of times within groups: minimum, median, 95th percentile and maximum, in whole nanoseconds."""

from __future__ import annotations

import itertools

import numpy as np

from assay.document.trace import Spread
from assay.trace.read.columns import Ints, SmallInts

_VALUE_BITS = 44
"""Enough for almost five hours in nanoseconds; longer times take the slower sort."""
NEVER = Spread(0, 0, 0, 0)
"""The spread of something that was never called."""


def spreads(group: SmallInts | Ints, values: Ints, groups: int) -> list[Spread | None]:
    """One spread per group; None for a group without values."""
    if values.min(initial=0) >= 0 and values.max(initial=0) < 1 << _VALUE_BITS and groups < 1 << 63 - _VALUE_BITS:
        # Packing group and value into one number needs only one sort of one column.
        keys = (group.astype(np.int64) << _VALUE_BITS) | values
        keys.sort()
        bounds = np.searchsorted(keys, np.arange(groups + 1, dtype=np.int64) << _VALUE_BITS).tolist()
        keys &= (1 << _VALUE_BITS) - 1
        sorted_values = keys
    else:
        order = np.lexsort((values, group))
        bounds = np.searchsorted(group[order], np.arange(groups + 1)).tolist()
        sorted_values = values[order]
    return [
        _spread(sorted_values[first:behind]) if behind > first else None
        for first, behind in itertools.pairwise(bounds)
    ]


def _spread(values: Ints) -> Spread:
    """The spread of sorted values."""
    count = len(values)
    low, high = int(values[(count - 1) // 2]), int(values[count // 2])
    return Spread(
        min_ns=int(values[0]),
        median_ns=(low + high) // 2,
        p95_ns=int(values[max(0, -(-95 * count // 100) - 1)]),
        max_ns=int(values[-1]),
    )
