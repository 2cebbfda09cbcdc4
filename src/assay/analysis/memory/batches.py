"""The largest batch that fits, by doubling and bisection over real captures."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

LIMIT = 1 << 20
"""Doubling ends here: what still fits at a million is not bound by the batch."""


class LargestBatch(Struct, frozen=True, omit_defaults=True):
    """What the search found."""

    batch: int
    """The largest that fits; 0 where not even one does."""
    peak_bytes: int | None
    """At that batch."""
    captures: int
    """How many captures were made."""
    budget: int
    monotone: bool = True
    """Whether the peak never fell as the batch grew; where it did, a larger batch may fit."""
    bounded: bool = True
    """Whether a batch was seen that does not fit."""


def largest_batch(peak_at: Callable[[int], int], budget: int, *, limit: int = LIMIT) -> LargestBatch:
    """The largest batch whose peak is within `budget`; `peak_at` is asked once for each batch that is tried."""
    seen: dict[int, int] = {}

    def fit(batch: int) -> bool:
        seen[batch] = peak_at(batch)
        return seen[batch] <= budget

    low, high = 0, 1
    while high <= limit and fit(high):
        low, high = high, high * 2
    bounded = high <= limit
    while bounded and high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fit(middle) else (low, middle)
    peaks = [peak for _, peak in sorted(seen.items())]
    return LargestBatch(
        batch=low,
        peak_bytes=seen.get(low),
        captures=len(seen),
        budget=budget,
        monotone=peaks == sorted(peaks),
        bounded=bounded,
    )
