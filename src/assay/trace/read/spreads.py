"""How times vary within groups: least, middle, 95th percentile and largest, as whole nanoseconds."""

from __future__ import annotations

import itertools

import numpy as np

from assay.document.trace import Spread
from assay.trace.read.columns import Ints, SmallInts

_VALUE_BITS = 44
"""Nanoseconds up to almost five hours; longer ones are sorted the slower way."""
NEVER = Spread(0, 0, 0, 0)
"""Of what has no calls."""


def spreads(group: SmallInts | Ints, values: Ints, groups: int) -> list[Spread | None]:
    """A spread for each group; None for one without values."""
    if values.min(initial=0) >= 0 and values.max(initial=0) < 1 << _VALUE_BITS and groups < 1 << 63 - _VALUE_BITS:
        # One sort of one column: a group and a value side by side in one number.
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
    """Of values in order."""
    count = len(values)
    low, high = int(values[(count - 1) // 2]), int(values[count // 2])
    return Spread(
        min_ns=int(values[0]),
        median_ns=(low + high) // 2,
        p95_ns=int(values[max(0, -(-95 * count // 100) - 1)]),
        max_ns=int(values[-1]),
    )
