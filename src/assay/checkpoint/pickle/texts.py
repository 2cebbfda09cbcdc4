"""Bytes that stand inside a pickle, as a region to be read: as they are, or written as text by protocol 2."""

from __future__ import annotations

from collections.abc import Sequence

from assay.checkpoint.entries import ByteRange, EncodedBytes
from assay.checkpoint.files import HeldFile, Region
from assay.checkpoint.pickle.values import Blob
from assay.checkpoint.unpacking import Encoding, Unpacked

WINDOW = 1 << 20
_NOT_CONTINUED = bytes(range(0x80)) + bytes(range(0xC0, 0x100))
"""Bytes that are no second half of a character."""


class TextFile:
    """The characters of a text in a region, each standing for a byte."""

    def __init__(self, region: Region) -> None:
        self.path = region.path
        self.size = _characters(region)
        self.coded = EncodedBytes(ByteRange(region.path, region.base, region.size), "text", self.size)
        self._unpacked = Unpacked(self.coded, Encoding(), region.read)

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`, or a `ReadError`."""
        return self._unpacked.read(offset, length)

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each (offset, length)."""
        return [self.read(offset, length) for offset, length in ranges]

    def close(self) -> None:
        """The file around it is closed by those who opened it."""


def plain_region(region: Region, data: bytes | Blob) -> Region | None:
    """The bytes that were read from a pickle in `region`, or passed over there; None where they are coded twice."""
    if isinstance(data, bytes):
        held = EncodedBytes(ByteRange(region.path, region.base, 0), "held", len(data), held=data)
        return Region(HeldFile(region.path, data, held))
    part = region.part(data.start, data.length)
    if not data.latin:
        return part
    return Region(TextFile(part)) if region.file.coded is None else None


def _characters(region: Region) -> int:
    """How many characters of UTF-8 there are."""
    count = 0
    for first in range(0, region.size, WINDOW):
        data = region.read(first, min(WINDOW, region.size - first))
        # What is left after taking out all that begins a character continues one.
        count += len(data) - len(data.translate(None, _NOT_CONTINUED))
    return count
