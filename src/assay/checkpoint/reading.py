"""The plain bytes of a checkpoint's entries, wherever and however they are stored."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from assay.checkpoint.decoding import decode
from assay.checkpoint.entries import Coded
from assay.checkpoint.files import open_region
from assay.checkpoint.remote import RemoteFile, is_url
from assay.checkpoint.unpacking import Encoding, Inflating, Unpacked, Unpacker

MOST_OPEN = 8
"""Packed ranges whose states are kept: those of the tensors that are under way."""

UNPACKERS: dict[str, Callable[[], Unpacker]] = {"deflate": Inflating, "text": Encoding}
"""The kinds that unpack from front to back only."""


class Reader:
    """Reads ranges of any files; safe in several threads. What it knows of them is lost when it is pickled."""

    def __init__(self) -> None:
        self._remote: dict[str, RemoteFile] = {}
        self._unpacked: OrderedDict[Coded, Unpacked] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, file: str, offset: int, length: int, coded: Coded | None = None) -> bytes:
        """Exactly `length` bytes from `offset` of the file, or of the plain bytes of `coded`; else `ReadError`."""
        if coded is None:
            return self._stored(file, offset, length)
        if coded.held is not None:
            return coded.held[offset : offset + length]
        if coded.kind in UNPACKERS:
            return self._unpacking(coded).read(offset, length)
        return decode(coded, offset, length, self._of(coded))

    def _stored(self, file: str, offset: int, length: int) -> bytes:
        if not is_url(file):
            with open_region(file) as region:
                return region.read(offset, length)
        # Opening asks the server for the size: once a file is enough.
        if file not in self._remote:
            self._remote[file] = RemoteFile(file)
        return self._remote[file].read(offset, length)

    def _of(self, coded: Coded) -> Callable[[int, int], bytes]:
        file, first = coded.span.file, coded.span.offset
        return lambda offset, length: self._stored(file, first + offset, length)

    def _unpacking(self, coded: Coded) -> Unpacked:
        with self._lock:
            found = self._unpacked.pop(coded, None) or Unpacked(coded, UNPACKERS[coded.kind](), self._of(coded))
            self._unpacked[coded] = found
            if len(self._unpacked) > MOST_OPEN:
                self._unpacked.popitem(last=False)
        return found

    def __reduce__(self) -> tuple[type[Reader], tuple[()]]:
        return Reader, ()
