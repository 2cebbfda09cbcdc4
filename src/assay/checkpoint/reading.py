"""Reads the decoded bytes of a checkpoint's entries, whatever their file and encoding."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from assay.checkpoint.decoding import decode
from assay.checkpoint.entries import EncodedBytes
from assay.checkpoint.files import Files
from assay.checkpoint.unpacking import DecodedRange, Decoder, DeflateDecoder, TextDecoder

if TYPE_CHECKING:
    from assay.checkpoint.statistics.chunks import Chunk

MAX_OPEN = 8
"""Encoded ranges whose decoder states are kept: those of the tensors being read."""

DECODERS: dict[str, Callable[[], Decoder]] = {"deflate": DeflateDecoder, "text": TextDecoder}
"""The encodings that can only be decoded from front to back."""


class RangeReader:
    """Reads byte ranges of any files. Thread-safe; a pickled copy starts with empty caches."""

    def __init__(self, files: Files | None = None) -> None:
        self._files = files or Files()
        self._decoded: OrderedDict[EncodedBytes, DecodedRange] = OrderedDict()
        self._lock = threading.Lock()
        self._thread = threading.local()

    def __call__(self, chunk: Chunk) -> bytes | memoryview:
        """The decoded bytes of a chunk, as the statistics engines request them, until the thread's next call."""
        if chunk.encoded is not None:
            return self.read(chunk.file, chunk.offset, chunk.bytes, chunk.encoded)
        view = self._buffer(chunk.bytes)
        with self._files.region(chunk.file) as region:
            region.read_into(chunk.offset, view)
        return view

    def _buffer(self, length: int) -> memoryview:
        """A buffer of this thread, used again and again: touching new memory takes longer than copying into it."""
        view: memoryview | None = getattr(self._thread, "view", None)
        if view is None or len(view) < length:
            view = self._thread.view = memoryview(bytearray(length))
        return view[:length]

    def read(self, file: str, offset: int, length: int, encoded: EncodedBytes | None = None) -> bytes:
        """Exactly `length` bytes from `offset` of the file or, if `encoded` is given, of its decoded bytes."""
        if encoded is None:
            return self._stored(file, offset, length)
        if encoded.plain is not None:
            return encoded.plain[offset : offset + length]
        if encoded.kind in DECODERS:
            return self._decoded_range(encoded).read(offset, length)
        return decode(encoded, offset, length, self._stored_reader(encoded))

    def _stored(self, file: str, offset: int, length: int) -> bytes:
        with self._files.region(file) as region:
            return region.read(offset, length)

    def _stored_reader(self, encoded: EncodedBytes) -> Callable[[int, int], bytes]:
        file, first = encoded.span.file, encoded.span.offset
        return lambda offset, length: self._stored(file, first + offset, length)

    def _decoded_range(self, encoded: EncodedBytes) -> DecodedRange:
        with self._lock:
            decoded = self._decoded.pop(encoded, None)
            if decoded is None:
                decoded = DecodedRange(encoded, DECODERS[encoded.kind](), self._stored_reader(encoded))
            self._decoded[encoded] = decoded
            if len(self._decoded) > MAX_OPEN:
                self._decoded.popitem(last=False)
        return decoded

    def __reduce__(self) -> tuple[type[RangeReader], tuple[()]]:
        return RangeReader, ()
