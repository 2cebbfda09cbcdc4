"""Statistics of tensors whose distinct values were all counted: 8- and 16-bit types, and others with few values."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from assay.checkpoint.statistics.chunks import ChunkPlan
from assay.checkpoint.statistics.distribution import Doubles, Moments, code_bytes, moment_statistics
from assay.checkpoint.statistics.dtypes import COUNTED, DTYPES, values
from assay.checkpoint.statistics.finalize import described, pruning, roundings, row_statistics, row_sums
from assay.checkpoint.statistics.kernel import kernel
from assay.checkpoint.statistics.layout import (
    BINS,
    CAST_FIELDS,
    NEAR_ZERO,
    PRUNE_SHARES,
    SUM_FIELDS,
    TABLE_FIELDS,
)
from assay.checkpoint.statistics.partials import Counts, Partial
from assay.document.weights import QUANTILES, Histogram, TensorStatistics

EXACT_INTEGERS = 1 << 53
"""Larger integers are not all representable in float64."""
_FLOAT, _SIGNED, _UNSIGNED = range(3)
"""How bit patterns are ordered, in the kernel's order."""
_QUANTILES, _SHARES = np.array(QUANTILES), np.array(PRUNE_SHARES)
_LENGTHS = (len(TABLE_FIELDS), len(SUM_FIELDS), len(QUANTILES), BINS, len(PRUNE_SHARES), len(CAST_FIELDS))
_PARTS = tuple(slice(end - size, end) for size, end in zip(_LENGTHS, accumulate(_LENGTHS), strict=True))


class ValueCounts(Struct, frozen=True):
    """The distinct values of a tensor in ascending order of their bit patterns."""

    raws: NDArray[Any]
    """Patterns of 16 bits, or values of 64."""
    counts: Counts
    """How often each is stored."""
    weights: Counts
    """How often each counts in the tensor, which may repeat stored values."""


def table_of(plan: ChunkPlan, partial: Partial) -> ValueCounts | None:
    """Every distinct value with its count; None if there are too many, or some do not fit in float64."""
    raws: NDArray[Any]
    if plan.dtype.family == COUNTED:
        raws, counts = partial.patterns, partial.counts
    elif partial.distinct is None or (plan.dtype.numpy in ("<i8", "<u8") and _is_large(plan, partial.distinct[0])):
        return None
    else:
        raws, counts = partial.distinct
    return ValueCounts(raws, counts, counts if plan.repeats == 1 else counts * np.uint64(plan.repeats))


def _is_large(plan: ChunkPlan, raws: Counts) -> bool:
    numbers = raws.view(plan.dtype.numpy)
    return bool(numbers.size) and max(-int(numbers.min()), int(numbers.max())) > EXACT_INTEGERS


@lru_cache(maxsize=32)
def _form(name: str) -> tuple[Doubles, int, int, int, float]:
    """What the kernel must know of a dtype: the number of each pattern, format, order, bits, smallest normal."""
    dtype = DTYPES[name]
    is_signed = dtype.numpy[1:2] == "i"
    order = _FLOAT if dtype.real else _SIGNED if is_signed else _UNSIGNED
    numbers = values(name) if dtype.family == COUNTED else np.zeros(0)
    return numbers, dtype.native, order, 8 * dtype.bytes, dtype.tiny


def statistics(plan: ChunkPlan, partial: Partial, table: ValueCounts, target_db: float) -> TensorStatistics:
    """All statistics of a tensor from its table of values."""
    dtype = plan.dtype
    form = _form(dtype.name)
    record = kernel.table(table.raws, table.counts, table.weights, *form, _QUANTILES, _SHARES, NEAR_ZERO)[0].tolist()
    facts, firsts, quantiles, bins, kept, casts = (record[part] for part in _PARTS)
    nan, inf, distinct, denormals, coded_bits, entropy_bits, low, high = facts
    fields: dict[str, Any] = {
        "nan": int(nan),
        "inf": int(inf),
        "zeros": 0,
        "distinct": int(distinct),
        "entropy_bytes": code_bytes((coded_bits,)),
    }
    if dtype.real:
        fields["denormals"] = int(denormals)
    n, mean, m2, m3, m4, l1, energy, zeros, near_zeros, near_zero_below, _ = firsts
    if n:
        fields |= {
            "min": low if dtype.real else int(low),
            "max": high if dtype.real else int(high),
            **moment_statistics(Moments(int(n), mean, m2, m3, m4), l1, energy),
            "zeros": int(zeros),
            "near_zeros": int(near_zeros),
            "near_zero_below": near_zero_below,
            "quantiles": tuple(quantiles),
            "histogram": Histogram(low, high, tuple(map(int, bins if low < high else bins[:1]))),
            "entropy_bits": entropy_bits,
        }
        if dtype.real or dtype.bytes == 1:
            rows = row_sums(plan, partial)
            fields |= row_statistics(plan, rows)
            if dtype.real:
                fields |= pruning(kept, energy)
                fields |= roundings(plan, rows, dict(zip(CAST_FIELDS, casts, strict=True)), energy, target_db)
    return described(plan, partial, fields)
