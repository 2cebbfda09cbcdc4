"""Splits a tensor into tiles of rows, which do not depend on the chunk size, and tiles into chunks to read."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from msgspec import Struct

from assay.checkpoint.statistics.dtypes import DTYPES, DType
from assay.errors import UsageError

CHUNK_BYTES = 8 << 20
STRIDED_BYTES = 2 << 20
"""Smaller, because a chunk of a strided view also needs memory for the index of every element."""
TILE_ELEMENTS = 1 << 17
MAX_ROW_LENGTH = 1 << 19
"""Longer rows are read in blocks, without statistics per row and column."""
MIN_STACKED = 32
"""The kernel of a convolution is usually smaller: a matrix of a stack has at least as many rows and columns."""


class Weight(Struct, frozen=True, omit_defaults=True):
    """A tensor to analyse and the position of its bytes."""

    names: tuple[str, ...]
    dtype: str
    shape: tuple[int, ...]
    file: str = ""
    offset: int = 0
    """Of the first byte; for strided views of the storage's first byte."""
    length: int = 0
    """Bytes available at `offset`."""
    strides: tuple[int, ...] | None = None
    """In elements; None if contiguous."""
    storage_offset: int = 0
    """In elements, for strided views."""
    alignment: int = 1
    problem: str = ""
    encoded: Any = None
    """How the reader decodes the stored bytes, if necessary; `offset` and `length` then count decoded bytes."""


class View(Struct, frozen=True):
    """The elements of a storage that a strided chunk gathers: a range of the view in row-major order."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start: int
    first: int


class Chunk(Struct, frozen=True, omit_defaults=True):
    """Rows to read and process: `rows × cols` numbers of `dtype` at `offset` of `file`."""

    tensor: int
    file: str
    offset: int
    rows: int
    cols: int
    dtype: str
    first_row: int
    view: View | None = None
    """Set if the elements must be gathered; `offset` is then that of the storage."""
    encoded: Any = None
    """That of the weight; used only by the reader."""

    @property
    def bytes(self) -> int:
        """Bytes of its elements."""
        return self.rows * self.cols * DTYPES[self.dtype].bytes


class ChunkPlan(Struct, frozen=True, omit_defaults=True):
    """A tensor split into chunks."""

    weight: Weight
    dtype: DType
    rows: int
    cols: int
    tile_rows: int
    by_rows: bool
    """Whether statistics per row and per column make sense."""
    chunks: tuple[Chunk, ...]
    note: str = ""


def is_stack(shape: tuple[int, ...], names: Collection[str]) -> bool:
    """Whether a 3-D tensor is a stack of matrices: named as experts, or of matrices that are larger than kernels."""
    if len(shape) != 3:
        return False
    return min(shape[1:]) >= max(MIN_STACKED, shape[0]) or any("expert" in name for name in names)


def matrix_of(shape: tuple[int, ...], names: Collection[str] = ()) -> tuple[int, int]:
    """The rows and columns of a tensor: a row is an output channel or, in stacked matrices, a row of one of them."""
    if len(shape) < 2:
        return 1, math.prod(shape)
    lead = 2 if is_stack(shape, names) else 1
    return math.prod(shape[:lead]), math.prod(shape[lead:])


def plan(index: int, weight: Weight, chunk_bytes: int = CHUNK_BYTES) -> ChunkPlan:
    """The chunks of one tensor; `UsageError` if it cannot be analysed."""
    dtype = DTYPES.get(weight.dtype)
    if weight.problem or dtype is None:
        raise UsageError(weight.problem or f"statistics are not supported for dtype {weight.dtype}")
    shape, strides, note = _unexpanded(weight)
    _check_span(weight, shape, strides, dtype)
    rows, cols = matrix_of(shape, weight.names)
    cols *= dtype.parts
    by_rows = len(shape) > 1 and cols <= MAX_ROW_LENGTH
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
        return Chunk(index, weight.file, offset, height, width, weight.dtype, first, view, weight.encoded)

    chunks = [chunk(first, min(step, rows - first), cols) for first in range(0, rows, step) if cols]
    rest = math.prod(shape) * dtype.parts - rows * cols
    if rest:
        chunks.append(chunk(rows, 1, rest))
    return ChunkPlan(weight, dtype, rows, cols, tile_rows, by_rows, tuple(chunks), note)


def _blocks(count: int) -> tuple[int, int]:
    """The number and size of whole blocks of a flat tensor; the remainder becomes a separate chunk."""
    return (1, count) if count <= TILE_ELEMENTS else (count // TILE_ELEMENTS, TILE_ELEMENTS)


def _unexpanded(weight: Weight) -> tuple[tuple[int, ...], tuple[int, ...] | None, str]:
    """Shape and strides with expanded dimensions reduced to size 1, and a note if there are any."""
    if weight.strides is None:
        return weight.shape, None, ""
    shape = tuple(1 if stride == 0 else size for size, stride in zip(weight.shape, weight.strides, strict=True))
    note = "expanded view: its storage is analysed once" if math.prod(shape) != math.prod(weight.shape) else ""
    return shape, weight.strides, note


def _check_span(weight: Weight, shape: tuple[int, ...], strides: tuple[int, ...] | None, dtype: DType) -> None:
    """Raise `UsageError` if the elements do not fit the available bytes."""
    count = math.prod(shape)
    if strides is None:
        needed = count * dtype.bytes * dtype.parts
        fits = needed == weight.length
    else:
        if any(stride < 0 for stride in strides):
            raise UsageError(f"negative strides are not supported: {strides}")
        last = weight.storage_offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
        needed = (last + 1) * dtype.bytes * dtype.parts if count else 0
        fits = needed <= weight.length
    if not fits:
        raise UsageError(f"shape {weight.shape} of {weight.dtype} takes {needed:,} bytes, not {weight.length:,}")
