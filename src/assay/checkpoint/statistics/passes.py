"""Runs the kernel functions for a dtype over the bytes of one chunk and returns the results as partials."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from assay.checkpoint.statistics.chunks import Chunk, ChunkPlan
from assay.checkpoint.statistics.dtypes import COUNTED, DTYPES, DType, as_bfloat16
from assay.checkpoint.statistics.kernel import kernel
from assay.checkpoint.statistics.layout import DISTINCT_LIMIT, ROW_FIELDS
from assay.checkpoint.statistics.partials import EMPTY, Counts, Doubles, Partial, Refined, Tiles, sparse

Bytes = NDArray[np.uint8]


class ChunkLayout(Struct, frozen=True):
    """The properties of a plan that a pass needs in addition to the chunk."""

    tile_rows: int
    columns: bool
    """Whether to sum the energies of the columns."""

    @classmethod
    def of(cls, plan: ChunkPlan) -> ChunkLayout:
        """The layout of a planned tensor."""
        has_rows = plan.dtype.real or plan.dtype.bytes == 1
        return cls(plan.tile_rows, plan.by_rows and has_rows)


class Request(Struct, frozen=True):
    """What a refining pass must look for."""

    shift: int
    """The position of the requested halfword, in bits."""
    slots: Bytes
    """By top halfword: 1 + the index of the first prefix that starts with it, or 0."""
    prefixes: Counts
    """Sorted rows: raw bits above the requested halfword, list number or 0, first edge, number of edges."""
    edges: Counts
    """Rows: the smallest halfword below the edge, and the number of halfwords from there that are below it."""
    final: bool
    """Whether this is the last pass: it also counts the low halfwords and, for floats, sums rounding errors."""
    peak: float
    """The largest magnitude of the tensor."""
    prune_magnitudes: Doubles
    """For each point of the pruning curve, the magnitude from which energies are summed."""


def first_pass(chunk: Chunk, layout: ChunkLayout, data: Bytes) -> Partial:
    """The counts, records, digests and column sums of one chunk."""
    dtype = DTYPES[chunk.dtype]
    (patterns, counts), records, columns, digests = _pass_for(dtype)(chunk, layout, data, dtype)
    distinct: tuple[Counts, Counts] | None = (EMPTY, EMPTY)
    if dtype.family != COUNTED:
        values, frequencies = kernel.distinct(data, dtype.bytes, DISTINCT_LIMIT)
        order = values[0].argsort()
        distinct = (values[0][order], frequencies[0][order]) if order.size <= DISTINCT_LIMIT else None
    tiles = _tiles(chunk, layout, records, digests)
    return Partial(patterns, counts, tiles, columns if layout.columns else None, distinct)


def refining_pass(chunk: Chunk, layout: ChunkLayout, request: Request, data: Bytes) -> Refined:
    """The values of one chunk with the requested prefixes and, in the last pass, its rounding errors."""
    dtype = DTYPES[chunk.dtype]
    tile = layout.tile_rows * chunk.cols if request.final and dtype.real else 0
    matches, edge_counts, planes, records = kernel.refine(
        data,
        dtype.native,
        request.shift,
        request.slots,
        request.prefixes,
        request.edges,
        request.final,
        tile,
        request.peak,
        request.prune_magnitudes,
    )
    no_digests = np.zeros((records.shape[0], 2), dtype=np.uint64)
    return Refined((matches[0],), EMPTY, edge_counts[0], planes, _tiles(chunk, layout, records, no_digests))


def _tiles(chunk: Chunk, layout: ChunkLayout, records: Doubles, digests: Counts) -> Tiles:
    first = chunk.first_row // layout.tile_rows
    return Tiles(np.arange(first, first + records.shape[0]), records, digests)


_PassParts = tuple[tuple[NDArray[np.uint16], Counts], Doubles, Doubles | None, Counts]
"""Patterns and counts, records, column sums, digests."""


def _floats(chunk: Chunk, layout: ChunkLayout, data: Bytes, dtype: DType) -> _PassParts:
    (patterns, counts), *rest = kernel.rows(
        data, dtype.native, chunk.rows, chunk.cols, layout.tile_rows, layout.columns, True
    )
    return (patterns[0], counts[0]), *rest


def _bytes(chunk: Chunk, layout: ChunkLayout, data: Bytes, dtype: DType) -> _PassParts:
    widened = as_bfloat16(dtype.name)[data].view(np.uint8)
    _, records, columns, _ = kernel.rows(
        widened, dtype.native, chunk.rows, chunk.cols, layout.tile_rows, layout.columns, False
    )
    return sparse(kernel.count8(data)[0]), records, columns, kernel.digests(data, layout.tile_rows * chunk.cols)


def _halfwords(chunk: Chunk, layout: ChunkLayout, data: Bytes, dtype: DType) -> _PassParts:
    digests = kernel.digests(data, layout.tile_rows * chunk.cols * dtype.bytes)
    return sparse(kernel.count16(data)[0]), np.zeros((digests.shape[0], len(ROW_FIELDS))), None, digests


def _integers(chunk: Chunk, layout: ChunkLayout, data: Bytes, dtype: DType) -> _PassParts:
    (patterns, counts), records, digests = kernel.integers(data, dtype.native, layout.tile_rows * chunk.cols)
    return (patterns[0], counts[0]), records, None, digests


def _pass_for(dtype: DType) -> Callable[[Chunk, ChunkLayout, Bytes, DType], _PassParts]:
    if dtype.bytes == 1:
        return _bytes
    if dtype.real:
        return _floats
    return _halfwords if dtype.family == COUNTED else _integers
