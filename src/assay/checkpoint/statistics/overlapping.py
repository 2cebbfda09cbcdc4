"""Statistics of overlapping views: every stored element is read once and counted as often as the view repeats it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from assay.checkpoint.statistics import counted
from assay.checkpoint.statistics.chunks import ChunkPlan
from assay.checkpoint.statistics.counted import ValueCounts
from assay.checkpoint.statistics.dtypes import COUNTED
from assay.checkpoint.statistics.extremes import scaled
from assay.checkpoint.statistics.finalize import blank
from assay.checkpoint.statistics.kernel import kernel
from assay.checkpoint.statistics.layout import ROW_FIELDS
from assay.checkpoint.statistics.partials import Counts, Partial, Tiles, grouped
from assay.document.weights import TensorStatistics


def statistics(plan: ChunkPlan, data: NDArray[np.uint8], exponent: int, target_db: float) -> TensorStatistics:
    """All statistics that do not need rows, from the stored elements that the view spans."""
    dtype = plan.dtype
    times = np.repeat(multiplicities(plan), dtype.parts)
    used = times > 0
    numbers = scaled(data, dtype.name, exponent)
    raws, times = numbers.view(f"<u{dtype.bytes}")[used].astype(np.uint64), times[used]
    values, weights = grouped(raws, times)
    _, counts = grouped(raws, np.ones_like(times))
    tiles = Tiles(np.zeros(1, dtype=np.int64), np.zeros((0, len(ROW_FIELDS))), kernel.digests(data, data.size))
    partial = Partial(values.astype(np.uint16), counts, tiles, None, (values, counts))
    if counted.table_of(plan, partial) is None:
        return blank(plan.weight, problem=f"{plan.note}, and some integers do not fit in float64")
    kept = partial.patterns if dtype.family == COUNTED else values
    return counted.statistics(plan, partial, ValueCounts(kept, counts, weights), target_db)


def multiplicities(plan: ChunkPlan) -> Counts:
    """How often the view repeats each stored element from its first to its last."""
    times = np.zeros(plan.cols // plan.dtype.parts, dtype=np.uint64)
    times[0] = plan.repeats
    strides = plan.weight.strides or ()
    for size, stride in zip(plan.weight.shape, strides, strict=True):
        if stride and size > 1:
            times = _summed(times, size, stride)
    return times


def _summed(times: Counts, size: int, stride: int) -> Counts:
    """For every place, the sum of `times` at the `size` places up to it that are `stride` apart."""
    padded = np.concatenate((times, np.zeros(-times.size % stride, dtype=np.uint64))).reshape(-1, stride)
    sums = padded.cumsum(axis=0, dtype=np.uint64)
    sums[size:] -= sums[:-size].copy()
    return sums.reshape(-1)[: times.size]
