"""Packed bytes read anywhere: they unpack from front to back only, so states along the way are kept."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from typing import NamedTuple, Protocol

from assay.checkpoint.entries import EncodedBytes
from assay.errors import ReadError
from assay.messages import brief

WINDOW = 1 << 18
"""Stored bytes fed at a time."""
STEP = 4 << 20
"""Plain bytes between two kept states, unless that would be too many."""
MOST_STATES = 64
"""Each holds the 32 KB that deflate looks back at."""


class Unpacker(Protocol):
    """Turns stored bytes into plain ones; a copy goes on by itself."""

    @property
    def ended(self) -> bool: ...
    def copy(self) -> Unpacker: ...
    def take(self, data: bytes, most: int) -> tuple[bytes, int]: ...


class Inflating:
    """Deflated bytes, as zip archives have them."""

    def __init__(self) -> None:
        self._state = zlib.decompressobj(-zlib.MAX_WBITS)

    @property
    def ended(self) -> bool:
        """Whether the stored bytes say that this was all."""
        return self._state.eof

    def copy(self) -> Inflating:
        """The same state again."""
        other = Inflating()
        other._state = self._state.copy()
        return other

    def take(self, data: bytes, most: int) -> tuple[bytes, int]:
        """At most `most` plain bytes, and how many stored ones they took."""
        if self._state.eof:
            return b"", 0
        plain = self._state.decompress(data, most)
        return plain, len(data) - len(self._state.unconsumed_tail) - len(self._state.unused_data)


class Encoding:
    """Bytes that a pickle of protocol 2 wrote as text: each is one character, in UTF-8."""

    ended = True

    def copy(self) -> Encoding:
        """Itself: characters do not depend on each other."""
        return self

    def take(self, data: bytes, most: int) -> tuple[bytes, int]:
        """At most `most` plain bytes, and how many stored ones they took."""
        part = data[:most]
        if part and part[-1] >= 0xC0:
            part = data[: most + 1] if len(part) == 1 else part[:-1]
        return part.decode("utf-8").encode("latin-1"), len(part)


class _Place(NamedTuple):
    plain: int
    stored: int
    state: Unpacker


class Unpacked:
    """The plain bytes of one packed range; safe to be read by several threads, which wait for each other."""

    def __init__(self, coded: EncodedBytes, start: Unpacker, read: Callable[[int, int], bytes]) -> None:
        self._coded = coded
        self._read_stored = read
        self._window = (0, b"")
        self._kept = [_Place(0, 0, start)]
        self._last = self._kept[0]
        self._step = max(STEP, coded.size // MOST_STATES)
        self._lock = threading.Lock()

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` plain bytes from `offset`; `ReadError` where they are not there."""
        with self._lock:
            try:
                return self._read(offset, offset + length)
            except (zlib.error, UnicodeError) as error:
                raise self._damaged("cannot be unpacked") from error

    def _read(self, first: int, end: int) -> bytes:
        near = [place for place in (*self._kept, self._last) if place.plain <= first]
        plain, stored, state = max(near, key=lambda place: place.plain)
        state = state.copy()
        found: list[bytes] = []
        while plain < end:
            # Stops where the wanted part begins, at its end, and where a state is to be kept.
            stop = min(first if plain < first else end, self._kept[-1].plain + self._step)
            piece, took = state.take(self._stored(stored), stop - plain)
            if not piece and not took:
                raise self._damaged("unpacks to less than it says")
            if plain >= first:
                found.append(piece)
            plain, stored = plain + len(piece), stored + took
            if plain == self._kept[-1].plain + self._step:
                self._kept.append(_Place(plain, stored, state.copy()))
        if plain == self._coded.size:
            self._check_end(stored, state.copy())
        self._last = _Place(plain, stored, state)
        return found[0] if len(found) == 1 else b"".join(found)

    def _check_end(self, stored: int, state: Unpacker) -> None:
        """Refuse what goes on after its announced size, or has no end."""
        while stored < self._coded.span.length or not state.ended:
            piece, took = state.take(self._stored(stored), 1)
            stored += took
            if piece:
                raise self._damaged("unpacks to more than it says")
            if not took:
                raise self._damaged("does not end where it says")

    def _stored(self, position: int) -> bytes:
        begin, data = self._window
        end = begin + len(data)
        # The last byte of a window is read again with the next: a character's two bytes may lie in both.
        if not begin <= position < end or (position == end - 1 and end < self._coded.span.length):
            begin, data = position, self._read_stored(position, min(WINDOW, self._coded.span.length - position))
            self._window = begin, data
        return data[position - begin :]

    def _damaged(self, why: str) -> ReadError:
        span = self._coded.span
        return ReadError(f"{brief(span.file)} is damaged: the record at byte {span.offset} {why}")
