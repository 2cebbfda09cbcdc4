"""Bounds the work on files whose tensors are overlapping views of the same bytes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from assay.checkpoint.statistics.chunks import Weight, repeats_much, span, unexpanded
from assay.checkpoint.statistics.dtypes import DTYPES

MAX_TIMES = 8
"""The tensors of a file may have this many times its bytes: real files tie tensors, or share parts of storages."""
FREE_BYTES = 64 << 20
"""More than that does not matter in small files."""
_EXCEEDED = f"the tensors of its file overlap and have over {MAX_TIMES} times its bytes"


def within_budget(weights: Sequence[Weight]) -> list[Weight]:
    """The weights; those that exceed the work allowed for the bytes of their file have a problem."""
    stored = _stored(weights)
    spent: Counter[Any] = Counter()
    kept = []
    for weight in weights:
        key = (weight.file, weight.encoded)
        work = 0 if weight.problem else _work(weight)
        exceeded = work and spent[key] + work > MAX_TIMES * stored[key] + FREE_BYTES
        spent[key] += 0 if exceeded else work
        kept.append(replace(weight, problem=_EXCEEDED) if exceeded else weight)
    return kept


def _stored(weights: Iterable[Weight]) -> dict[Any, int]:
    """For each file, and each encoded part of one, how far its tensors reach."""
    stored: dict[Any, int] = {}
    for weight in weights:
        key = (weight.file, weight.encoded)
        stored[key] = max(stored.get(key, 0), weight.offset + weight.length)
    return stored


def _work(weight: Weight) -> int:
    """At most the bytes that the statistics of a tensor take to read."""
    dtype = DTYPES.get(weight.dtype)
    shape, strides, _ = unexpanded(weight)
    if dtype is None or strides is None:
        return weight.length
    elements = span(shape, strides) if repeats_much(shape, strides) else math.prod(shape)
    return elements * dtype.bytes * dtype.parts
