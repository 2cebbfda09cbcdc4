"""The plain bytes of a checkpoint's entries, wherever and however they are stored."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from assay.checkpoint.decoding import decode
from assay.checkpoint.entries import EncodedBytes
from assay.checkpoint.files import Files
from assay.checkpoint.unpacking import Encoding, Inflating, Unpacked, Unpacker

if TYPE_CHECKING:
    from assay.checkpoint.statistics.chunks import Chunk

MOST_OPEN = 8
"""Packed ranges whose states are kept: those of the tensors that are under way."""

UNPACKERS: dict[str, Callable[[], Unpacker]] = {"deflate": Inflating, "text": Encoding}
"""The kinds that unpack from front to back only."""


class RangeReader:
    """Reads ranges of any files; safe in several threads. What it knows of them is lost when it is pickled."""

    def __init__(self, files: Files | None = None) -> None:
        self._files = files or Files()
        self._unpacked: OrderedDict[EncodedBytes, Unpacked] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, chunk: Chunk) -> bytes:
        """The plain bytes of a chunk, as the engines ask for them."""
        return self.read(chunk.file, chunk.offset, chunk.bytes, chunk.coded)

    def read(self, file: str, offset: int, length: int, coded: EncodedBytes | None = None) -> bytes:
        """Exactly `length` bytes from `offset` of the file, or of the plain bytes of `coded`; else `ReadError`."""
        if coded is None:
            return self._stored(file, offset, length)
        if coded.held is not None:
            return coded.held[offset : offset + length]
        if coded.kind in UNPACKERS:
            return self._unpacking(coded).read(offset, length)
        return decode(coded, offset, length, self._of(coded))

    def _stored(self, file: str, offset: int, length: int) -> bytes:
        with self._files.region(file) as region:
            return region.read(offset, length)

    def _of(self, coded: EncodedBytes) -> Callable[[int, int], bytes]:
        file, first = coded.span.file, coded.span.offset
        return lambda offset, length: self._stored(file, first + offset, length)

    def _unpacking(self, coded: EncodedBytes) -> Unpacked:
        with self._lock:
            found = self._unpacked.pop(coded, None) or Unpacked(coded, UNPACKERS[coded.kind](), self._of(coded))
            self._unpacked[coded] = found
            if len(self._unpacked) > MOST_OPEN:
                self._unpacked.popitem(last=False)
        return found

    def __reduce__(self) -> tuple[type[RangeReader], tuple[()]]:
        return RangeReader, ()
