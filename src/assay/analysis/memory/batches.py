"""The largest batch that fits, found by doubling and bisection over real captures."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

LIMIT = 1 << 20
"""Doubling stops here: if a million still fits, memory does not depend on the batch."""


class LargestBatch(Struct, frozen=True, omit_defaults=True):
    """The result of a search for the largest batch."""

    batch: int
    """The largest batch that fits; 0 if not even a batch of 1 does."""
    peak_bytes: int | None
    """Peak memory at that batch."""
    captures: int
    """Number of captures made."""
    budget: int
    monotone: bool = True
    """Whether the peak never fell as the batch grew; if it did, a larger batch may fit."""
    bounded: bool = True
    """Whether the search met a batch that does not fit."""


def largest_batch(peak_at: Callable[[int], int], budget: int, *, limit: int = LIMIT) -> LargestBatch:
    """The largest batch whose peak is within `budget`; `peak_at` is called once per batch tried."""
    tried: dict[int, int] = {}

    def fit(batch: int) -> bool:
        tried[batch] = peak_at(batch)
        return tried[batch] <= budget

    low, high = 0, 1
    while high <= limit and fit(high):
        low, high = high, high * 2
    bounded = high <= limit
    while bounded and high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fit(middle) else (low, middle)
    peaks = [peak for _, peak in sorted(tried.items())]
    return LargestBatch(
        batch=low,
        peak_bytes=tried.get(low),
        captures=len(tried),
        budget=budget,
        monotone=peaks == sorted(peaks),
        bounded=bounded,
    )
