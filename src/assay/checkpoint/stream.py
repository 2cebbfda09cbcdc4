"""Reads a region of a file from front to back through a small buffer (the window)."""

from __future__ import annotations

from assay.checkpoint.files import Region, truncated
from assay.checkpoint.remote import is_url
from assay.errors import ReadError
from assay.messages import one_line

WINDOW = 1 << 18
REMOTE_WINDOW = 1 << 22
"""Larger, because the latency of a request outweighs the transfer."""
MARGIN = 300
"""Bytes that the window always holds ahead of `safe`, so that short reads need no bounds check."""


class Stream:
    """The window `data` starts at offset `base` of the region; the next byte to read is `data[pos]`."""

    __slots__ = ("_step", "base", "data", "pos", "region", "safe")

    def __init__(self, region: Region, start: int = 0) -> None:
        self.region = region
        self._step = REMOTE_WINDOW if is_url(region.path) else WINDOW
        self.jump(start)

    @property
    def offset(self) -> int:
        """The offset of the next byte in the region."""
        return self.base + self.pos

    def jump(self, offset: int) -> None:
        """Continue reading at `offset` of the region."""
        if not 0 <= offset <= self.region.size:
            raise self.short()
        self.base, self.pos = offset, 0
        self.data = self.region.read(offset, min(self._step, self.region.size - offset))
        more = self.base + len(self.data) < self.region.size
        self.safe = len(self.data) - MARGIN if more else len(self.data)
        """The window must be refilled before reading past this position."""

    def refill(self) -> None:
        """Move the window so that it starts with the next byte."""
        if self.base + len(self.data) < self.region.size:
            self.jump(self.offset)

    def take(self, length: int) -> bytes:
        """The next `length` bytes."""
        first = self.pos
        if first + length <= len(self.data):
            self.pos += length
            return self.data[first : self.pos]
        start = self.offset
        data = self.region.read(start, length)
        self.jump(start + length)
        return data

    def skip(self, length: int) -> int:
        """Skip `length` bytes and return the offset at which they start."""
        start = self.offset
        if self.pos + length <= len(self.data):
            self.pos += length
        else:
            self.jump(start + length)
        return start

    def number(self, length: int, *, signed: bool = False) -> int:
        """The next `length` bytes as a little-endian number."""
        return int.from_bytes(self.take(length), "little", signed=signed)

    def line(self, limit: int) -> bytes:
        """The bytes up to the next line feed, which is skipped."""
        end = self.data.find(b"\n", self.pos)
        if end < 0:
            self.refill()
            end = self.data.find(b"\n", self.pos)
        if end < 0 and self.base + len(self.data) >= self.region.size:
            raise self.short()
        if end < 0 or end - self.pos > limit:
            raise ReadError(f"{one_line(self.region.path)} is damaged: the line at byte {self.offset} has no end")
        line = self.data[self.pos : end]
        self.pos = end + 1
        return line

    def short(self) -> ReadError:
        """The error to raise if the region ends too early."""
        return truncated(self.region.path, "it ends in the middle of its header or pickle")
