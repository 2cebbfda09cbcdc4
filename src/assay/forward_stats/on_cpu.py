"""Values of a tensor in main memory: read in blocks that stay in the cache, sums carried on in double precision."""

from __future__ import annotations

import math
from typing import Any

import torch

from assay.forward_stats.values import ValueStats, deviation, flattened, reducible

BLOCK = 1 << 17
"""Elements of a block; single precision is good for the sum of this many."""
MOST_SHIFT = 100.0
"""A mean squared over this many variances leaves too few digits; then deviations are taken first."""
SAFE = (1e-30, 1e30)
"""Mean squares between these neither vanish nor overflow in single precision."""

_AS_THEY_ARE = {torch.float32, torch.float64}
"""Types that are added up as they are."""


def values(tensor: torch.Tensor, count: int) -> ValueStats:
    """The values of a real tensor of `count` elements."""
    wide = None
    if tensor.dtype not in _AS_THEY_ARE:
        tensor = reducible(tensor)
        wide = torch.float32 if tensor.is_floating_point() else torch.float64
    flat = flattened(tensor)
    low, high, total, squares = _sweep(flat, wide)
    if not (math.isfinite(low) and math.isfinite(high)):
        nan = math.isnan(low)
        inf = not nan or bool(torch.isinf(flat).any())
        return ValueStats(low, high, total / flat.numel(), math.nan if count > 1 else None, nan, inf)
    mean, variance = _moments(flat, low, high, total, squares)
    return ValueStats(low, high, mean, deviation(variance, count), False, False)


def _sweep(flat: torch.Tensor, wide: torch.dtype | None) -> tuple[Any, Any, float, float]:
    """Least, largest, sum and sum of squares, added up as `wide`; NaN as least and largest where there is one."""
    if flat.numel() <= BLOCK:
        return _sweep_block(flat, wide)
    lows, highs, totals, squares = zip(*(_sweep_block(block, wide) for block in flat.split(BLOCK)), strict=True)
    poisoned = next((low for low in lows if low != low), None)
    low, high = (min(lows), max(highs)) if poisoned is None else (poisoned, poisoned)
    return low, high, sum(totals), sum(squares)


def _sweep_block(block: torch.Tensor, wide: torch.dtype | None) -> tuple[Any, Any, float, float]:
    low, high = torch.aminmax(block)
    numbers = block if wide is None else block.to(wide)
    return low.item(), high.item(), numbers.sum().item(), torch.dot(numbers, numbers).item()


def _moments(flat: torch.Tensor, low: Any, high: Any, total: float, squares: float) -> tuple[float, float]:
    """Mean and population variance; by deviations from the mean where squares alone are too coarse."""
    count = flat.numel()
    if low == high:
        return float(low), 0.0
    mean, square = total / count, squares / count
    variance = square - mean * mean
    if SAFE[0] < square < SAFE[1] and mean * mean < MOST_SHIFT * variance:
        return mean, variance
    mean = sum(block.sum(dtype=torch.float64).item() for block in flat.split(BLOCK)) / count
    total = 0.0
    for block in flat.split(BLOCK):
        away = block.double() - mean
        total += torch.dot(away, away).item()
    return mean, total / count
