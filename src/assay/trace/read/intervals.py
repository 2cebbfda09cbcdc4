"""Sets of time intervals: their union, total length and overlap."""

from __future__ import annotations

import numpy as np

from assay.trace.read.columns import Ints


def union(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The union of the intervals, as sorted disjoint intervals."""
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start, until = start[order], np.maximum.accumulate(end[order])
    begins = np.flatnonzero(np.r_[True, start[1:] > until[:-1]])
    return start[begins], until[np.r_[begins[1:] - 1, len(until) - 1]]


def length(start: Ints, end: Ints) -> int:
    """The time covered by at least one interval."""
    first, last = union(start, end)
    return int((last - first).sum())


def common(a: tuple[Ints, Ints], b: tuple[Ints, Ints]) -> int:
    """The time covered by both sets."""
    return length(*a) + length(*b) - length(np.r_[a[0], b[0]], np.r_[a[1], b[1]])
