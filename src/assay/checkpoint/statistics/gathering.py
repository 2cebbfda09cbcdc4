"""Reading a chunk's bytes: straight, or element by element from a strided view."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from assay.checkpoint.statistics.chunks import Chunk, View
from assay.checkpoint.statistics.dtypes import DTYPES
from assay.errors import ReadError

Read = Callable[[Chunk], bytes]
"""Returns the `rows × cols` parts of a chunk without a view."""

NEAR_ELEMENTS = 4096
"""Elements this close are fetched by one read."""


def fetch(chunk: Chunk, read: Read) -> NDArray[np.uint8]:
    """The bytes of a chunk in row-major order."""
    return _gathered(chunk, chunk.view, read) if chunk.view else _whole(chunk, read)


def _whole(chunk: Chunk, read: Read) -> NDArray[np.uint8]:
    data = np.frombuffer(read(chunk), dtype=np.uint8)
    if data.size != chunk.bytes:
        raise ReadError(f"{chunk.file}: wanted {chunk.bytes:,} bytes at {chunk.offset:,}, got {data.size:,}")
    return data


def _gathered(chunk: Chunk, view: View, read: Read) -> NDArray[np.uint8]:
    dtype = DTYPES[chunk.dtype]
    item = dtype.bytes * dtype.parts
    places = _places(view, chunk.bytes // item)
    out = np.empty((places.size, item), dtype=np.uint8)
    order = np.argsort(places, kind="stable")
    steps = np.flatnonzero(np.diff(places[order]) > NEAR_ELEMENTS) + 1
    for run in np.split(order, steps):
        low, high = int(places[run[0]]), int(places[run[-1]]) + 1
        parts = (high - low) * dtype.parts
        first = chunk.offset + low * item
        span = Chunk(chunk.tensor, chunk.file, first, 1, parts, chunk.dtype, 0, coded=chunk.coded)
        out[run] = _whole(span, read).reshape(-1, item)[places[run] - low]
    return out.reshape(-1)


def _places(view: View, count: int) -> NDArray[np.int64]:
    """Where in the storage the elements `first … first + count` of the view lie."""
    left = np.arange(view.first, view.first + count, dtype=np.int64)
    places = np.full(count, view.start, dtype=np.int64)
    for size, stride in zip(reversed(view.shape), reversed(view.strides), strict=True):
        left, index = np.divmod(left, size)
        places += index * stride
    return places
