"""Sets of times as sorted intervals that do not touch: their union, length and gaps."""

from __future__ import annotations

import numpy as np

from assay.trace.read.columns import Ints


def union(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The times that at least one interval covers."""
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start, until = start[order], np.maximum.accumulate(end[order])
    begins = np.flatnonzero(np.r_[True, start[1:] > until[:-1]])
    return start[begins], until[np.r_[begins[1:] - 1, len(until) - 1]]


def length(start: Ints, end: Ints) -> int:
    """How much time at least one interval covers."""
    first, last = union(start, end)
    return int((last - first).sum())


def common(a: tuple[Ints, Ints], b: tuple[Ints, Ints]) -> int:
    """How much time both sets cover."""
    return length(*a) + length(*b) - length(np.r_[a[0], b[0]], np.r_[a[1], b[1]])
