"""Memory bandwidth: of main memory, and of each cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from assay.document.machine import Cache, CacheLevel, Ceiling, WorkingSet, measured_figure, unknown_figure
from assay.timing.peaks.bursts import TimedDevice, Workload, bursts, rate, unmeasured
from assay.timing.settings import threads

_MIB = 1 << 20
_FLOAT = 4
_BLOCK = 1 << 22
"""Random numbers drawn at most per array."""
LEAST_BYTES = {"cpu": 64 * _MIB, "cuda": 1 << 30}
BUDGET_S = {"cpu": 0.35, "cuda": 0.25}
_POINT_S = 0.035
_SMALLEST = {"cpu": 16 << 10, "cuda": 2 * _MIB}
_INSIDE = 0.75
"""A working set of up to this share of a cache is assumed to fit in it."""
_VISIBLE = 3.0
"""A copy must take at least this many times the overhead per op; otherwise the overhead hides the cache."""

Kernel = Callable[[list[torch.Tensor]], Workload]

KERNELS: dict[str, tuple[int, Kernel]] = {
    "read": (1, lambda arrays: lambda: arrays[0].sum()),
    "copy": (2, lambda arrays: lambda: arrays[1].copy_(arrays[0])),
    "triad": (3, lambda arrays: lambda: torch.add(arrays[0], arrays[1], alpha=1.5, out=arrays[2])),
}
"""The number of arrays each kernel moves, and its maker. Reads caused by writing (write-allocate) are ignored."""


def array_bytes(where: TimedDevice, caches: Sequence[Cache], memory_bytes: int | None) -> int:
    """The size of one array: at least four times the largest cache, but at most 1/32 of the memory."""
    preferred = max(LEAST_BYTES[where.device.type], 4 * max((cache.size for cache in caches), default=0))
    return min(preferred, (memory_bytes or 16 << 30) // 32)


def bandwidths(where: TimedDevice, size: int, share: float = 1.0) -> Iterator[Ceiling]:
    """One limit per kernel, on arrays of `size` bytes, measured in `share` of the time budget."""
    try:
        arrays = [_array(where, size // _FLOAT) for _ in range(3)]
    except torch.OutOfMemoryError:
        yield from (unmeasured(name, f"not enough memory for three arrays of {size // _MIB} MiB") for name in KERNELS)
        return
    for name, (moved, make) in KERNELS.items():
        run, at, budget_s = make(arrays), f"arrays of {size // _MIB} MiB", share * BUDGET_S[where.device.type]
        rates = [rate(name, bursts(where, run, budget_s), moved * size, at, where.clock)]
        if not where.cuda:
            with threads(1):
                times = bursts(where.alone(), run, budget_s / 2)
            rates.append(rate(name, times, moved * size, f"{at}, 1 thread", where.alone().clock))
        yield max(rates, key=lambda one: one.value or 0)


def sweep(where: TimedDevice, largest: int) -> list[WorkingSet]:
    """The bandwidth of copies within working sets that double in size up to `largest` bytes."""
    points = []
    total = _SMALLEST[where.device.type]
    while total <= largest:
        arrays = [_array(where, total // 2 // _FLOAT) for _ in range(2)]
        times = bursts(where, KERNELS["copy"][1](arrays), _POINT_S)
        points.append(WorkingSet(total, total / min(times)))
        total *= 2
    return points


def levels(points: Sequence[WorkingSet], caches: Sequence[Cache], overhead_s: float) -> list[CacheLevel]:
    """The best bandwidth of the sweep within each cache, and in main memory."""
    rows, above = [], 0
    for cache in caches:
        inside = [point for point in points if above < point.bytes <= _INSIDE * cache.size]
        rows.append(_level(f"L{cache.level}", cache.size, inside, overhead_s))
        above = cache.size
    uncached = [point for point in points if point.bytes >= 2 * above]
    rows.append(_level("memory", None, uncached, overhead_s))
    return rows


def _array(where: TimedDevice, count: int) -> torch.Tensor:
    """`count` random numbers, in repeated blocks: to draw gigabytes would take longer than the measurement."""
    block = where.normal(min(count, _BLOCK))
    return block.repeat(-(-count // _BLOCK))[:count]


def _level(name: str, size: int | None, points: Sequence[WorkingSet], overhead_s: float) -> CacheLevel:
    visible = [point for point in points if point.bytes / point.bandwidth >= _VISIBLE * overhead_s]
    if not visible:
        why = "not measurable: op overhead dominates" if points else "no measured working set fits this level"
        return CacheLevel(name, unknown_figure(why), size)
    best = max(point.bandwidth for point in visible)
    return CacheLevel(name, measured_figure(best, "copy, best burst", repeats=len(visible)), size)
