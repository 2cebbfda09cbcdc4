"""Bytes inside a pickle as a readable region, stored either directly or as text (protocol 2)."""

from __future__ import annotations

from collections.abc import Sequence

from assay.checkpoint.entries import ByteRange, EncodedBytes
from assay.checkpoint.files import BytesFile, Region
from assay.checkpoint.pickle.values import Blob
from assay.checkpoint.unpacking import DecodedRange, TextDecoder

WINDOW = 1 << 20
_NOT_CONTINUED = bytes(range(0x80)) + bytes(range(0xC0, 0x100))
"""All byte values except UTF-8 continuation bytes."""


class TextFile:
    """Bytes that are stored in a region as text, one character per byte."""

    def __init__(self, region: Region) -> None:
        self.path = region.path
        self.size = _characters(region)
        self.encoded = EncodedBytes(ByteRange(region.path, region.base, region.size), "text", self.size)
        self._unpacked = DecodedRange(self.encoded, TextDecoder(), region.read)

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`, or a `ReadError`."""
        return self._unpacked.read(offset, length)

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each (offset, length)."""
        return [self.read(offset, length) for offset, length in ranges]

    def close(self) -> None:
        """Do nothing: the owner of the underlying file closes it."""


class PlainBytes:
    """The bytes in a pickle, which is in a region. Each text is measured once, however often it is referred to."""

    def __init__(self, region: Region) -> None:
        self._region = region
        self._texts: dict[int, TextFile] = {}
        """By the offset at which they start."""

    def region(self, data: bytes | Blob) -> Region | None:
        """The bytes of `data`, which was read from or skipped in the pickle; None if encoded twice."""
        region = self._region
        if isinstance(data, bytes):
            encoded = EncodedBytes(ByteRange(region.path, region.base, 0), "held", len(data), plain=data)
            return Region(BytesFile(region.path, data, encoded))
        part = region.part(data.start, data.length)
        if not data.latin:
            return part
        if region.file.encoded is not None:
            return None
        if data.start not in self._texts:
            self._texts[data.start] = TextFile(part)
        return Region(self._texts[data.start])


def _characters(region: Region) -> int:
    """The number of UTF-8 characters in the region."""
    count = 0
    for first in range(0, region.size, WINDOW):
        data = region.read(first, min(WINDOW, region.size - first))
        # Deleting every first byte leaves the continuation bytes; the difference is the number of characters.
        count += len(data) - len(data.translate(None, _NOT_CONTINUED))
    return count
