"""Random access to bytes that decode only from front to back: decoder states along the way are kept."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from typing import NamedTuple, Protocol

from assay.checkpoint.entries import EncodedBytes
from assay.errors import ReadError
from assay.messages import one_line

WINDOW = 1 << 18
"""Stored bytes passed to the decoder at a time."""
STEP = 4 << 20
"""Decoded bytes between two kept states; more if there would be over `MAX_STATES`."""
MAX_STATES = 64
"""Bounds memory: each state holds deflate's 32 KB window."""


class Decoder(Protocol):
    """A decoder from stored to plain bytes; a copy continues independently."""

    @property
    def ended(self) -> bool: ...
    def copy(self) -> Decoder: ...
    def take(self, data: bytes, limit: int) -> tuple[bytes, int]: ...


class DeflateDecoder:
    """Decodes deflate, the compression of zip archives."""

    def __init__(self) -> None:
        self._state = zlib.decompressobj(-zlib.MAX_WBITS)

    @property
    def ended(self) -> bool:
        """Whether the end-of-stream marker was reached."""
        return self._state.eof

    def copy(self) -> DeflateDecoder:
        """A decoder in the same state."""
        other = DeflateDecoder()
        other._state = self._state.copy()
        return other

    def take(self, data: bytes, limit: int) -> tuple[bytes, int]:
        """At most `limit` plain bytes, and the number of stored bytes they consumed."""
        if self._state.eof:
            return b"", 0
        plain = self._state.decompress(data, limit)
        return plain, len(data) - len(self._state.unconsumed_tail) - len(self._state.unused_data)


class TextDecoder:
    """Decodes bytes that pickle protocol 2 wrote as text: one UTF-8 character per byte."""

    ended = True

    def copy(self) -> TextDecoder:
        """Itself: it has no state."""
        return self

    def take(self, data: bytes, limit: int) -> tuple[bytes, int]:
        """At most `limit` plain bytes, and the number of stored bytes they consumed."""
        part = data[:limit]
        if part and part[-1] >= 0xC0:
            part = data[: limit + 1] if len(part) == 1 else part[:-1]
        return part.decode("utf-8").encode("latin-1"), len(part)


class _SavedState(NamedTuple):
    """A decoder state and the numbers of plain and stored bytes before it."""

    plain: int
    stored: int
    state: Decoder


class DecodedRange:
    """The plain bytes of one encoded range. Thread-safe: readers take turns."""

    def __init__(self, encoded: EncodedBytes, start: Decoder, read: Callable[[int, int], bytes]) -> None:
        self._encoded = encoded
        self._read_stored = read
        self._window = (0, b"")
        self._kept = [_SavedState(0, 0, start)]
        self._last = self._kept[0]
        self._step = max(STEP, encoded.size // MAX_STATES)
        self._checked, self._crc = 0, 0
        """The plain bytes that have gone into the checksum so far, and their checksum."""
        self._lock = threading.Lock()

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` plain bytes from `offset`, or a `ReadError`."""
        with self._lock:
            try:
                return self._read(offset, offset + length)
            except (zlib.error, UnicodeError) as error:
                raise self._damaged("cannot be decoded") from error

    def _read(self, first: int, end: int) -> bytes:
        before = [kept for kept in (*self._kept, self._last) if kept.plain <= first]
        plain, stored, state = max(before, key=lambda kept: kept.plain)
        state = state.copy()
        pieces: list[bytes] = []
        while plain < end:
            # Stop at the start and end of the requested part, and where a state is to be kept.
            stop = min(first if plain < first else end, self._kept[-1].plain + self._step)
            piece, consumed = state.take(self._stored(stored), stop - plain)
            if not piece and not consumed:
                raise self._damaged("decodes to fewer bytes than declared")
            self._add_to_sum(plain, piece)
            if plain >= first:
                pieces.append(piece)
            plain, stored = plain + len(piece), stored + consumed
            if plain == self._kept[-1].plain + self._step:
                self._kept.append(_SavedState(plain, stored, state.copy()))
        if plain == self._encoded.size:
            self._check_end(stored, state.copy())
        self._last = _SavedState(plain, stored, state)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _add_to_sum(self, plain: int, piece: bytes) -> None:
        """Add the new part of `piece`, which starts at `plain`."""
        new = piece[self._checked - plain :] if plain <= self._checked else b""
        self._checked, self._crc = self._checked + len(new), zlib.crc32(new, self._crc)

    def _check_end(self, stored: int, state: Decoder) -> None:
        """Raise `ReadError` if the data does not end where it should, or does not have its checksum."""
        while stored < self._encoded.span.length or not state.ended:
            piece, consumed = state.take(self._stored(stored), 1)
            stored += consumed
            if piece:
                raise self._damaged("decodes to more bytes than declared")
            if not consumed:
                raise self._damaged("does not end where declared")
        if self._encoded.crc is not None and self._checked == self._encoded.size and self._crc != self._encoded.crc:
            raise self._damaged("does not match its CRC-32; copy or download the file again")

    def _stored(self, position: int) -> bytes:
        begin, data = self._window
        end = begin + len(data)
        # The last byte of a window is read again with the next one: a two-byte character may span both.
        if not begin <= position < end or (position == end - 1 and end < self._encoded.span.length):
            begin, data = position, self._read_stored(position, min(WINDOW, self._encoded.span.length - position))
            self._window = begin, data
        return data[position - begin :]

    def _damaged(self, why: str) -> ReadError:
        span = self._encoded.span
        return ReadError(f"{one_line(span.file)} is damaged: the record at byte {span.offset} {why}")
