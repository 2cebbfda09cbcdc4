"""The spectrum of a tensor from its bytes: small matrices are decoded once, large ones again at every step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from assay.checkpoint.statistics.chunks import Chunk, ChunkPlan, Weight, plan
from assay.checkpoint.statistics.dtypes import COUNTED, DTYPES, values
from assay.checkpoint.statistics.engine import FAILURES
from assay.checkpoint.statistics.gathering import fetch
from assay.checkpoint.statistics.spectral import spectral
from assay.document.weights import TensorStatistics

CHUNK_BYTES = 1 << 20
"""Chunks become doubles, several times over, so they are smaller than those of the statistics."""
KEPT_ELEMENTS = 4 << 20
"""Of small matrices, in all that are under way at once."""

Read = Callable[[Any], Any]
Block = NDArray[np.float64]


def with_spectrum(weight: Weight, row: TensorStatistics, read: Read, at_once: int = 1) -> TensorStatistics:
    """The row with its spectrum, where it is a matrix of real numbers; so many may be under way at once."""
    planned = plan(0, weight, CHUNK_BYTES)
    if (
        not planned.by_rows
        or not planned.dtype.real
        or planned.dtype.parts > 1
        or min(planned.rows, planned.cols) < 2
    ):
        return row
    try:
        return replace(row, spectral=spectral(_blocks(planned, read, KEPT_ELEMENTS // at_once), planned.cols))
    except FAILURES as error:
        return replace(row, note=f"no spectrum: {error}")


def _blocks(planned: ChunkPlan, read: Read, most_kept: int) -> Callable[[], Iterator[Block]]:
    def decoded() -> Iterator[Block]:
        return (_decoded(chunk, read) for chunk in planned.chunks)

    if planned.rows * planned.cols > most_kept:
        return decoded
    kept = list(decoded())
    return lambda: iter(kept)


def _decoded(chunk: Chunk, read: Read) -> Block:
    data, dtype = fetch(chunk, read), DTYPES[chunk.dtype]
    counted = dtype.family == COUNTED
    numbers = values(dtype.name)[data.view(f"<u{dtype.bytes}")] if counted else data.view(dtype.numpy)
    return np.asarray(numbers, dtype=np.float64).reshape(chunk.rows, chunk.cols)
