"""Two speeds of the same pass: a shared host can run it in one of two distinct times."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

_SLOWER = 1.2
"""The slower passes take at least this many times as long as the faster ones."""
_SHARE = 0.15
"""The smallest share of passes that counts as a speed of its own."""
_APART = 0.5
"""No pass lies in this share of the distance between the medians of both speeds."""


def two_modes(samples: Sequence[float]) -> tuple[list[float], list[float]] | None:
    """The faster and the slower samples if they form two separate groups; None otherwise."""
    ordered = sorted(samples)
    fewest = max(2, round(_SHARE * len(ordered)))
    splits = range(fewest, len(ordered) - fewest + 1)
    if not splits:
        return None
    split = max(splits, key=lambda at: ordered[at] - ordered[at - 1])
    fast, slow = ordered[:split], ordered[split:]
    distance = median(slow) - median(fast)
    if median(slow) < _SLOWER * median(fast) or slow[0] - fast[-1] < _APART * distance:
        return None
    return fast, slow
