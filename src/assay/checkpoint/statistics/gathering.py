"""Reads the bytes of a chunk, contiguous or gathered from a strided view."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from assay.checkpoint.statistics.chunks import Chunk, View
from assay.checkpoint.statistics.dtypes import DTYPES
from assay.errors import ReadError

Read = Callable[[Chunk], bytes | memoryview]
"""Returns the bytes of a contiguous chunk, which may change with the next call in the same thread."""

NEAR_BYTES = 1 << 16
"""Elements at most this far apart are read together."""
WINDOW_BYTES = 4 << 20
"""At most this much is read at once, however far the elements of a chunk are apart."""


def fetch(chunk: Chunk, read: Read) -> NDArray[np.uint8]:
    """The bytes of a chunk, in row-major order."""
    return _gathered(chunk, chunk.view, read) if chunk.view else _whole(chunk, read)


def _whole(chunk: Chunk, read: Read) -> NDArray[np.uint8]:
    data = np.frombuffer(read(chunk), dtype=np.uint8)
    if data.size != chunk.bytes:
        raise ReadError(f"{chunk.file}: expected {chunk.bytes:,} bytes at offset {chunk.offset:,}, got {data.size:,}")
    return data


def _gathered(chunk: Chunk, view: View, read: Read) -> NDArray[np.uint8]:
    dtype = DTYPES[chunk.dtype]
    item = dtype.bytes * dtype.parts
    indices = _indices(view, chunk.bytes // item)
    out = np.empty((indices.size, item), dtype=np.uint8)
    order = np.argsort(indices, kind="stable")
    places = indices[order]
    far = np.diff(places) > NEAR_BYTES // item
    windows = np.diff(places // (WINDOW_BYTES // item)) > 0
    for run in np.split(order, np.flatnonzero(far | windows) + 1):
        low, high = int(indices[run[0]]), int(indices[run[-1]]) + 1
        parts = (high - low) * dtype.parts
        first = chunk.offset + low * item
        span = Chunk(chunk.tensor, chunk.file, first, 1, parts, chunk.dtype, 0, encoded=chunk.encoded)
        out[run] = _whole(span, read).reshape(-1, item)[indices[run] - low]
    return out.reshape(-1)


def _indices(view: View, count: int) -> NDArray[np.int64]:
    """The storage indices of `count` elements of the view, starting at `view.first`."""
    remaining = np.arange(view.first, view.first + count, dtype=np.int64)
    indices = np.full(count, view.start, dtype=np.int64)
    for size, stride in zip(reversed(view.shape), reversed(view.strides), strict=True):
        remaining, index = np.divmod(remaining, size)
        indices += index * stride
    return indices
