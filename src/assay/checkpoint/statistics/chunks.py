"""Splits a tensor into tiles of rows, which do not depend on the chunk size, and tiles into chunks to read."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Any

from msgspec import Struct

from assay.checkpoint.statistics.dtypes import DTYPES, DType
from assay.checkpoint.statistics.layout import DISTINCT_LIMIT, SORTED_ELEMENTS
from assay.errors import UsageError

CHUNK_BYTES = 8 << 20
STRIDED_BYTES = 2 << 20
"""Smaller, because a chunk of a strided view also needs memory for the index of every element."""
TILE_ELEMENTS = 1 << 17
MAX_ROW_LENGTH = 1 << 19
"""Longer rows are read in blocks, without statistics per row and column."""
GATHERED_TIMES = 4
GATHERED_ELEMENTS = 1 << 16
"""Overlapping views of at most so many elements, or so many times what they span, are gathered as other views are."""
OVERLAP_ELEMENTS = 1 << 20
"""Of larger views, the stored elements are read once and counted as often as they occur; at most this many."""
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
    crc: int | None = None
    """The CRC-32 that the bytes must have."""


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
    repeats: int = 1
    """How often every value that is read occurs in the tensor, an expanded view."""
    overlapping: bool = False
    """Whether the only chunk has the stored elements of an overlapping view, which repeats some more than others."""

    @property
    def most_distinct(self) -> int:
        """Up to how many distinct values are counted if there are too many bit patterns to count all."""
        is_small = sum(chunk.rows * chunk.cols for chunk in self.chunks) <= SORTED_ELEMENTS
        return SORTED_ELEMENTS if is_small else DISTINCT_LIMIT


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
    shape, strides, repeats = unexpanded(weight)
    _check_span(weight, shape, strides, dtype)
    rows, cols = matrix_of(shape, weight.names)
    count = rows * cols
    if not count:
        return ChunkPlan(weight, dtype, rows, cols, 1, False, ())
    note = f"expanded view: every stored value counts {repeats:,} times" if repeats > 1 else ""
    if strides is not None and repeats_much(shape, strides):
        return _overlapping(index, weight, dtype, span(shape, strides), repeats)
    cols *= dtype.parts
    by_rows = len(shape) > 1 and cols <= MAX_ROW_LENGTH and repeats == 1
    tile_rows = max(1, TILE_ELEMENTS // cols) if by_rows else 1
    limit = chunk_bytes if strides is None else min(chunk_bytes, STRIDED_BYTES)

    def chunk(first: int, start: int, height: int, width: int) -> Chunk:
        offset, view = weight.offset + start * dtype.bytes, None
        if strides is not None:
            offset, view = weight.offset, View(shape, strides, weight.storage_offset, start // dtype.parts)
        return Chunk(index, weight.file, offset, height, width, weight.dtype, first, view, weight.encoded)

    if by_rows:
        step = max(1, limit // (cols * dtype.bytes * tile_rows)) * tile_rows
        chunks = [chunk(first, first * cols, min(step, rows - first), cols) for first in range(0, rows, step)]
    else:
        step = max(1, limit // (TILE_ELEMENTS * dtype.bytes))
        flat = _blocks(rows if repeats == 1 else 1, cols if repeats == 1 else rows * cols, step)
        chunks = [chunk(*block) for block in flat]
    return ChunkPlan(weight, dtype, rows, cols, tile_rows, by_rows, tuple(chunks), note, repeats)


def _blocks(rows: int, cols: int, step: int) -> Iterator[tuple[int, int, int, int]]:
    """Long rows in blocks, at most `step` whole ones at once: index, first element, number and size of the blocks.

    No block has elements of two rows, so groups of values begin where their rows do.
    """
    index, (whole, rest) = 0, divmod(cols, TILE_ELEMENTS)
    for row in range(rows):
        for first in range(0, whole, step):
            yield index + first, row * cols + first * TILE_ELEMENTS, min(step, whole - first), TILE_ELEMENTS
        index += whole
        if rest:
            yield index, row * cols + whole * TILE_ELEMENTS, 1, rest
            index += 1


def repeats_much(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether the elements of an overlapping view are too many to gather."""
    most = max(GATHERED_ELEMENTS, GATHERED_TIMES * span(shape, strides))
    return math.prod(shape) > most and overlaps(shape, strides)


def overlaps(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether elements of the view may share storage: some step is not past all that smaller steps reach."""
    reached = 0
    for stride, size in sorted((stride, size) for stride, size in zip(strides, shape, strict=True) if size > 1):
        if stride <= reached:
            return True
        reached += (size - 1) * stride
    return False


def span(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """The number of stored elements from the first to the last of the view."""
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def _overlapping(index: int, weight: Weight, dtype: DType, spanned: int, repeats: int) -> ChunkPlan:
    """The plan that reads the stored elements of an overlapping view once."""
    count = math.prod(weight.shape)
    note = f"overlapping view: its {count:,} elements are {spanned:,} stored ones"
    if spanned > OVERLAP_ELEMENTS:
        raise UsageError(f"{note}, the limit for statistics is {OVERLAP_ELEMENTS:,}")
    offset, cols = weight.offset + weight.storage_offset * dtype.bytes * dtype.parts, spanned * dtype.parts
    chunk = Chunk(index, weight.file, offset, 1, cols, weight.dtype, 0, None, weight.encoded)
    return ChunkPlan(weight, dtype, 1, cols, 1, False, (chunk,), note, repeats, True)


def unexpanded(weight: Weight) -> tuple[tuple[int, ...], tuple[int, ...] | None, int]:
    """Shape and strides with expanded dimensions reduced to size 1, and how often each element is repeated."""
    count = math.prod(weight.shape)
    if weight.strides is None or not count:
        return weight.shape, None, 1
    shape = tuple(1 if stride == 0 else size for size, stride in zip(weight.shape, weight.strides, strict=True))
    return shape, weight.strides, count // math.prod(shape)


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
