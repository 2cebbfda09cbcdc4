"""Value statistics of a CPU tensor: read in cache-sized blocks, with sums accumulated in double precision."""

from __future__ import annotations

import math
from typing import Any

import torch

from assay.forward_stats.values import ValueStats, deviation, flattened, reducible

BLOCK = 1 << 17
"""Elements per block; single precision is accurate enough for the sum of this many."""
MAX_SHIFT = 100.0
"""Above this ratio of squared mean to variance, too few digits remain and deviations are summed instead."""
SAFE_RANGE = (1e-30, 1e30)
"""Mean squares in this range neither underflow nor overflow in single precision."""

_SUMMED_DIRECTLY = {torch.float32, torch.float64}
"""Dtypes that are summed without conversion."""


def values(tensor: torch.Tensor, count: int) -> ValueStats:
    """The statistics of a real tensor of `count` elements."""
    wide = None
    if tensor.dtype not in _SUMMED_DIRECTLY:
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
    """Min, max, sum and sum of squares, summed as `wide` if given; min and max are NaN if any value is."""
    if flat.numel() <= BLOCK:
        return _sweep_block(flat, wide)
    lows, highs, totals, squares = zip(*(_sweep_block(block, wide) for block in flat.split(BLOCK)), strict=True)
    nan = next((low for low in lows if low != low), None)
    low, high = (min(lows), max(highs)) if nan is None else (nan, nan)
    return low, high, sum(totals), sum(squares)


def _sweep_block(block: torch.Tensor, wide: torch.dtype | None) -> tuple[Any, Any, float, float]:
    low, high = torch.aminmax(block)
    numbers = block if wide is None else block.to(wide)
    return low.item(), high.item(), numbers.sum().item(), torch.dot(numbers, numbers).item()


def _moments(flat: torch.Tensor, low: Any, high: Any, total: float, squares: float) -> tuple[float, float]:
    """Mean and population variance; from deviations if the sum of squares is not accurate enough."""
    count = flat.numel()
    if low == high:
        return float(low), 0.0
    mean, square = total / count, squares / count
    variance = square - mean * mean
    if SAFE_RANGE[0] < square < SAFE_RANGE[1] and mean * mean < MAX_SHIFT * variance:
        return mean, variance
    mean = sum(block.sum(dtype=torch.float64).item() for block in flat.split(BLOCK)) / count
    total = 0.0
    for block in flat.split(BLOCK):
        deviations = block.double() - mean
        total += torch.dot(deviations, deviations).item()
    return mean, total / count
