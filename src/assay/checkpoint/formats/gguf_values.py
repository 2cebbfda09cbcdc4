"""The values of a GGUF header, read one after another; long lists are passed over."""

from __future__ import annotations

import struct
from typing import Any

from assay.checkpoint.files import Region
from assay.checkpoint.formats.gguf_types import BOOL, LIST, SCALARS, TEXT
from assay.checkpoint.stream import Stream
from assay.errors import ReadError
from assay.messages import brief

LONGEST_NAME = 1 << 16
LONGEST_TEXT = 1 << 16
"""Longer values (chat templates, whole vocabularies) are passed over and only their length is kept."""
MOST_ITEMS = 4_000_000
"""Of all lists together; the largest vocabularies have some 300,000 and as many merges."""
KEPT_ITEMS = 8
DEEPEST_LIST = 4


class Header:
    """Reads a header's numbers in the file's own byte order and width."""

    def __init__(self, region: Region) -> None:
        self._path = brief(region.path)
        self._stream = Stream(region, 4)
        number = self._stream.number(4)
        self.swapped = number > 0xFFFF
        """Whether the file was written on a big-endian machine."""
        self._order = ">" if self.swapped else "<"
        self._left = MOST_ITEMS
        self.version = int.from_bytes(number.to_bytes(4, "little"), "big") if self.swapped else number

    @property
    def offset(self) -> int:
        """Where the next byte lies."""
        return self._stream.offset

    def number(self, width: int) -> int:
        """The next unsigned number of `width` bytes."""
        return int.from_bytes(self._stream.take(width), "big" if self.swapped else "little")

    def count(self) -> int:
        """The next count; version 1 wrote them in four bytes."""
        return self.number(4 if self.version == 1 else 8)

    def text(self) -> str:
        """The next text as a name."""
        length = self.count()
        if length > LONGEST_NAME:
            raise self.refused(f"a name of {length} bytes")
        try:
            return self._stream.take(length).decode("utf-8")
        except UnicodeError as error:
            raise self.refused("a name that is not UTF-8") from error

    def value(self) -> Any:
        """The next value with its type before it."""
        return self._value(self.number(4), 0)

    def refused(self, why: str) -> ReadError:
        """What to raise on a header that no writer would make."""
        return ReadError(f"{self._path} is refused: {why}")

    def _value(self, kind: int, depth: int) -> Any:
        if kind in SCALARS:
            code = SCALARS[kind]
            (found,) = struct.unpack(self._order + code, self._stream.take(struct.calcsize("=" + code)))
            return bool(found) if kind == BOOL else found
        if kind == TEXT:
            return self._any_text()
        if kind == LIST and depth < DEEPEST_LIST:
            return self._list(depth + 1)
        raise self.refused(f"a value of type {kind}" if kind != LIST else "lists nested too deep")

    def _any_text(self) -> Any:
        length = self.count()
        if length <= LONGEST_TEXT:
            return self._stream.take(length).decode("utf-8", "backslashreplace")
        self._stream.skip(length)
        return {"length": length}

    def _list(self, depth: int) -> Any:
        """The whole list where it is short; else its length and how it begins."""
        kind, count = self.number(4), self.count()
        self._left -= count if kind not in SCALARS else 0
        if self._left < 0 or count > self._stream.region.size:
            raise self.refused(f"a list of {count} values")
        kept = [self._value(kind, depth) for _ in range(min(count, KEPT_ITEMS))]
        rest = count - len(kept)
        if kind in SCALARS:
            self._stream.skip(rest * struct.calcsize("=" + SCALARS[kind]))
        elif kind == TEXT:
            for _ in range(rest):
                self._stream.skip(self.count())
        else:
            for _ in range(rest):
                self._value(kind, depth)
        return kept if not rest else {"length": count, "first": kept}
