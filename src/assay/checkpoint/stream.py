"""A region of a file read from front to back through a small window."""

from __future__ import annotations

from assay.checkpoint.files import Region
from assay.checkpoint.remote import is_url
from assay.errors import ReadError
from assay.messages import brief

WINDOW = 1 << 18
REMOTE_WINDOW = 1 << 22
"""A request costs far more than the bytes it brings."""
MARGIN = 300
"""Bytes that are always in the window before the end of the region, so that short reads need no check."""


class Stream:
    """The window `data` starts at `base` of the region; the next byte to read is `data[pos]`."""

    __slots__ = ("_step", "base", "data", "pos", "region", "safe")

    def __init__(self, region: Region, start: int = 0) -> None:
        self.region = region
        self._step = REMOTE_WINDOW if is_url(region.path) else WINDOW
        self.jump(start)

    @property
    def offset(self) -> int:
        """Where in the region the next byte lies."""
        return self.base + self.pos

    def jump(self, offset: int) -> None:
        """Go on reading at `offset` of the region."""
        if not 0 <= offset <= self.region.size:
            raise self.short()
        self.base, self.pos = offset, 0
        self.data = self.region.read(offset, min(self._step, self.region.size - offset))
        more = self.base + len(self.data) < self.region.size
        self.safe = len(self.data) - MARGIN if more else len(self.data)
        """Beyond this position the window wants refilling."""

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
        found = self.region.read(start, length)
        self.jump(start + length)
        return found

    def skip(self, length: int) -> int:
        """Pass over `length` bytes; where they start."""
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
        """The bytes up to the next line feed, which is passed over."""
        end = self.data.find(b"\n", self.pos)
        if end < 0:
            self.refill()
            end = self.data.find(b"\n", self.pos)
        if end < 0 and self.base + len(self.data) >= self.region.size:
            raise self.short()
        if end < 0 or end - self.pos > limit:
            raise ReadError(f"{brief(self.region.path)} is damaged: a line without an end at byte {self.offset}")
        found = self.data[self.pos : end]
        self.pos = end + 1
        return found

    def short(self) -> ReadError:
        """What to raise where the region ends too soon."""
        return ReadError(f"{brief(self.region.path)} is cut short: it ends in the middle of its description")
