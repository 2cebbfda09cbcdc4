"""Runs the kernel functions for a dtype over the bytes of one chunk and returns the results as partials."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from assay.checkpoint.statistics.chunks import Chunk, ChunkPlan
from assay.checkpoint.statistics.dtypes import COUNTED, DTYPES, DType
from assay.checkpoint.statistics.kernel import kernel
from assay.checkpoint.statistics.layout import ROW_FIELDS
from assay.checkpoint.statistics.partials import EMPTY, Counts, Doubles, Partial, Refined, Tiles, sparse

Bytes = NDArray[np.uint8]


class ChunkLayout(Struct, frozen=True):
    """The properties of a plan that a pass needs in addition to the chunk."""

    tile_rows: int
    columns: bool
    """Whether to sum the energies of the columns."""
    distinct: int
    """Up to how many distinct values of wide formats are counted."""
    exponent: int = 0
    """The numbers are multiplied by two to this exponent."""
    checked: bool = False
    """Whether to compute a CRC-32."""

    @classmethod
    def of(cls, plan: ChunkPlan, exponent: int = 0) -> ChunkLayout:
        """The layout of a planned tensor."""
        has_rows = plan.dtype.real or plan.dtype.bytes == 1
        return cls(
            plan.tile_rows,
            plan.by_rows and has_rows,
            plan.most_distinct,
            exponent,
            plan.weight.crc is not None and not exponent,
        )


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
        values, frequencies = kernel.distinct(data, dtype.bytes, layout.distinct)
        distinct = (values[0], frequencies[0]) if values.size <= layout.distinct else None
    tiles = _tiles(chunk, layout, records, digests)
    pieces = ((chunk.first_row, data.size, zlib.crc32(data.data)),) if layout.checked else ()
    return Partial(patterns, counts, tiles, columns if layout.columns else None, distinct, pieces)


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


def _rows(chunk: Chunk, layout: ChunkLayout, data: Bytes, dtype: DType) -> _PassParts:
    (patterns, counts), *rest = kernel.rows(
        data, dtype.native, chunk.rows, chunk.cols, layout.tile_rows, layout.columns
    )
    return (patterns[0], counts[0]), *rest


def _halfwords(chunk: Chunk, layout: ChunkLayout, data: Bytes, dtype: DType) -> _PassParts:
    digests = kernel.digests(data, layout.tile_rows * chunk.cols * dtype.bytes)
    return sparse(kernel.count16(data)[0]), np.zeros((digests.shape[0], len(ROW_FIELDS))), None, digests


def _integers(chunk: Chunk, layout: ChunkLayout, data: Bytes, dtype: DType) -> _PassParts:
    (patterns, counts), records, digests = kernel.integers(data, dtype.native, layout.tile_rows * chunk.cols)
    return (patterns[0], counts[0]), records, None, digests


def _pass_for(dtype: DType) -> Callable[[Chunk, ChunkLayout, Bytes, DType], _PassParts]:
    if dtype.real or dtype.bytes == 1:
        return _rows
    return _halfwords if dtype.family == COUNTED else _integers
