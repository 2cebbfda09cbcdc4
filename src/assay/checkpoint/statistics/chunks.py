"""How a tensor is cut: rows into tiles, whose records never depend on the cutting, and tiles into chunks to read."""

from __future__ import annotations

import math
from typing import Any

from msgspec import Struct

from assay.checkpoint.statistics.dtypes import DTYPES, DType
from assay.errors import UsageError

CHUNK_BYTES = 8 << 20
STRIDED_BYTES = 2 << 20
"""A chunk of a strided view also needs room for the places of its elements."""
TILE_ELEMENTS = 1 << 17
LONGEST_ROW = 1 << 19
"""Longer rows are read in blocks, and figures per row and column are left out."""
STACKED_COLUMNS = 128
"""A 3-D tensor whose last dimension is at least this is a stack of matrices, not a convolution."""


class Weight(Struct, frozen=True, omit_defaults=True):
    """A tensor to analyse and where its bytes lie."""

    names: tuple[str, ...]
    dtype: str
    shape: tuple[int, ...]
    file: str = ""
    offset: int = 0
    """Of the first byte, or of the storage's first byte for strided views."""
    length: int = 0
    """Bytes there."""
    strides: tuple[int, ...] | None = None
    """In elements; None where contiguous."""
    storage_offset: int = 0
    """In elements, for strided views."""
    alignment: int = 1
    problem: str = ""
    coded: Any = None
    """What the reader needs to have plain bytes from stored ones; `offset` and `length` are of plain bytes then."""


class View(Struct, frozen=True):
    """Which elements of a storage a strided chunk gathers: a range in row-major order."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start: int
    first: int


class Chunk(Struct, frozen=True, omit_defaults=True):
    """Rows to read and work on: `rows × cols` parts of `dtype` at `offset` of `file`."""

    tensor: int
    file: str
    offset: int
    rows: int
    cols: int
    dtype: str
    first_row: int
    view: View | None = None
    """Where the elements must be gathered; `offset` is the storage's then."""
    coded: Any = None
    """As the weight's; for the reader alone."""

    @property
    def bytes(self) -> int:
        """How many bytes its elements take."""
        return self.rows * self.cols * DTYPES[self.dtype].bytes


class ChunkPlan(Struct, frozen=True, omit_defaults=True):
    """One tensor cut up."""

    weight: Weight
    dtype: DType
    rows: int
    cols: int
    tile_rows: int
    by_rows: bool
    """Whether figures per row and per column make sense."""
    chunks: tuple[Chunk, ...]
    note: str = ""


def matrix_of(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns: a row is an output channel, and in stacked matrices a row of any of them."""
    if len(shape) < 2:
        return 1, math.prod(shape)
    lead = 2 if len(shape) == 3 and shape[-1] >= STACKED_COLUMNS else 1
    return math.prod(shape[:lead]), math.prod(shape[lead:])


def plan(index: int, weight: Weight, chunk_bytes: int = CHUNK_BYTES) -> ChunkPlan:
    """The chunks of one tensor; raises where it cannot be analysed."""
    dtype = DTYPES.get(weight.dtype)
    if weight.problem or dtype is None:
        raise UsageError(weight.problem or f"no statistics for dtype {weight.dtype}")
    shape, strides, note = _unexpanded(weight)
    _check_span(weight, shape, strides, dtype)
    rows, cols = matrix_of(shape)
    cols *= dtype.parts
    by_rows = len(shape) > 1 and cols <= LONGEST_ROW
    if not by_rows:
        rows, cols = _blocks(rows * cols)
    tile_rows = max(1, TILE_ELEMENTS // max(cols, 1))
    limit = chunk_bytes if strides is None else min(chunk_bytes, STRIDED_BYTES)
    step = max(1, limit // (max(cols, 1) * dtype.bytes * tile_rows)) * tile_rows

    def chunk(first: int, height: int, width: int) -> Chunk:
        start = first * cols
        offset, view = weight.offset + start * dtype.bytes, None
        if strides is not None:
            offset, view = weight.offset, View(shape, strides, weight.storage_offset, start // dtype.parts)
        return Chunk(index, weight.file, offset, height, width, weight.dtype, first, view, weight.coded)

    chunks = [chunk(first, min(step, rows - first), cols) for first in range(0, rows, step) if cols]
    rest = math.prod(shape) * dtype.parts - rows * cols
    if rest:
        chunks.append(chunk(rows, 1, rest))
    return ChunkPlan(weight, dtype, rows, cols, tile_rows, by_rows, tuple(chunks), note)


def _blocks(count: int) -> tuple[int, int]:
    """Whole blocks of a flat tensor; what is left over becomes a chunk of its own."""
    return (1, count) if count <= TILE_ELEMENTS else (count // TILE_ELEMENTS, TILE_ELEMENTS)


def _unexpanded(weight: Weight) -> tuple[tuple[int, ...], tuple[int, ...] | None, str]:
    """Shape and strides without expanded dimensions: their storage is analysed once."""
    if weight.strides is None:
        return weight.shape, None, ""
    shape = tuple(1 if stride == 0 else size for size, stride in zip(weight.shape, weight.strides, strict=True))
    note = "expanded view: its storage is analysed once" if math.prod(shape) != math.prod(weight.shape) else ""
    return shape, weight.strides, note


def _check_span(weight: Weight, shape: tuple[int, ...], strides: tuple[int, ...] | None, dtype: DType) -> None:
    """Raises where the elements do not fit the bytes that are there."""
    count = math.prod(shape)
    if strides is None:
        wanted = count * dtype.bytes * dtype.parts
        fits = wanted == weight.length
    else:
        if any(stride < 0 for stride in strides):
            raise UsageError(f"a stride of {strides} is negative")
        last = weight.storage_offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
        wanted = (last + 1) * dtype.bytes * dtype.parts if count else 0
        fits = wanted <= weight.length
    if not fits:
        raise UsageError(f"shape {weight.shape} of {weight.dtype} takes {wanted:,} bytes, not {weight.length:,}")
