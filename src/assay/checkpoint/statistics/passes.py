"""The work on one chunk's bytes: which kernel functions run for which dtype, and what they return as partials."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from assay.checkpoint.statistics.chunks import Chunk, ChunkPlan
from assay.checkpoint.statistics.dtypes import COUNTED, DTYPES, DType, as_bfloat16
from assay.checkpoint.statistics.kernel import kernel
from assay.checkpoint.statistics.layout import DISTINCT_LIMIT, ROW_FIELDS
from assay.checkpoint.statistics.partials import NOTHING, Counts, Doubles, Partial, Refined, Tiles, sparse

Bytes = NDArray[np.uint8]


class ChunkLayout(Struct, frozen=True):
    """What a pass needs to know of the plan besides the chunk."""

    tile_rows: int
    columns: bool

    @classmethod
    def of(cls, plan: ChunkPlan) -> ChunkLayout:
        """The layout of a planned tensor."""
        has_rows = plan.dtype.real or plan.dtype.bytes == 1
        return cls(plan.tile_rows, plan.by_rows and has_rows)


class Request(Struct, frozen=True):
    """What a refining pass is asked for."""

    shift: int
    slots: Bytes
    """By top halfword: 0, or 1 + the place of the first prefix with it."""
    prefixes: Counts
    """Sorted rows: raw bits above the wanted halfword, list or 0, first edge, how many edges."""
    edges: Counts
    """Rows: the least halfword that lies below the edge, and how many from it do."""
    final: bool
    """Whether this is the last pass: it counts the low halfwords and, for floats, takes the errors."""
    peak: float
    above: Doubles
    """The magnitudes from which the pruning curve's energies are added up."""


def first_pass(chunk: Chunk, layout: ChunkLayout, data: Bytes) -> Partial:
    """The counts, records, digests and column sums of one chunk."""
    dtype = DTYPES[chunk.dtype]
    (patterns, counts), records, columns, digests = _run_of(dtype)(chunk, layout, data, dtype)
    distinct: tuple[Counts, Counts] | None = (NOTHING, NOTHING)
    if dtype.family != COUNTED:
        values, often = kernel.distinct(data, dtype.bytes, DISTINCT_LIMIT)
        order = values[0].argsort()
        distinct = (values[0][order], often[0][order]) if order.size <= DISTINCT_LIMIT else None
    tiles = _tiles(chunk, layout, records, digests)
    return Partial(patterns, counts, tiles, columns if layout.columns else None, distinct)


def refining_pass(chunk: Chunk, layout: ChunkLayout, request: Request, data: Bytes) -> Refined:
    """What one chunk holds behind the wanted prefixes, and in the last pass its errors."""
    dtype = DTYPES[chunk.dtype]
    tile = layout.tile_rows * chunk.cols if request.final and dtype.real else 0
    found, inside, planes, records = kernel.refine(
        data,
        dtype.native,
        request.shift,
        request.slots,
        request.prefixes,
        request.edges,
        request.final,
        tile,
        request.peak,
        request.above,
    )
    nothing = np.zeros((records.shape[0], 2), dtype=np.uint64)
    return Refined((found[0],), NOTHING, inside[0], planes, _tiles(chunk, layout, records, nothing))


def _tiles(chunk: Chunk, layout: ChunkLayout, records: Doubles, digests: Counts) -> Tiles:
    first = chunk.first_row // layout.tile_rows
    return Tiles(np.arange(first, first + records.shape[0]), records, digests)


_Found = tuple[tuple[NDArray[np.uint16], Counts], Doubles, Doubles | None, Counts]
"""Patterns and counts, records, column sums, digests."""


def _floats(chunk: Chunk, layout: ChunkLayout, data: Bytes, dtype: DType) -> _Found:
    (patterns, counts), *rest = kernel.rows(
        data, dtype.native, chunk.rows, chunk.cols, layout.tile_rows, layout.columns, True
    )
    return (patterns[0], counts[0]), *rest


def _bytes(chunk: Chunk, layout: ChunkLayout, data: Bytes, dtype: DType) -> _Found:
    widened = as_bfloat16(dtype.name)[data].view(np.uint8)
    _, records, columns, _ = kernel.rows(
        widened, dtype.native, chunk.rows, chunk.cols, layout.tile_rows, layout.columns, False
    )
    return sparse(kernel.count8(data)[0]), records, columns, kernel.digests(data, layout.tile_rows * chunk.cols)


def _halfwords(chunk: Chunk, layout: ChunkLayout, data: Bytes, dtype: DType) -> _Found:
    digests = kernel.digests(data, layout.tile_rows * chunk.cols * dtype.bytes)
    return sparse(kernel.count16(data)[0]), np.zeros((digests.shape[0], len(ROW_FIELDS))), None, digests


def _integers(chunk: Chunk, layout: ChunkLayout, data: Bytes, dtype: DType) -> _Found:
    (patterns, counts), records, digests = kernel.integers(data, dtype.native, layout.tile_rows * chunk.cols)
    return (patterns[0], counts[0]), records, None, digests


def _run_of(dtype: DType) -> Callable[[Chunk, ChunkLayout, Bytes, DType], _Found]:
    if dtype.bytes == 1:
        return _bytes
    if dtype.real:
        return _floats
    return _halfwords if dtype.family == COUNTED else _integers
