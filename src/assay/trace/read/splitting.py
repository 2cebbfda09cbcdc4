"""Splits a trace file, which arrives in pieces and may be damaged, into the JSON texts of its events.

In JSON only a colon, a comma or a closing bracket can follow a string, so a quote before anything else is taken as
part of the string: Kineto does not escape names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from enum import Enum

_FOLLOWS = rb'(?=[ \t\r\n]*(?:[:}\]]|,[ \t\r\n]*["{\[\]}\-0-9tfnNiI]))'
STRING = rb'"(?:[^\\]|\\.)*?"' + _FOLLOWS
_TOKEN = re.compile(STRING + rb'|[{}\[\]"]', re.DOTALL)
_SPACE = re.compile(rb"[ \t\r\n]*")
_SPACE_OR_COMMA = re.compile(rb"[ \t\r\n,]*")
_KEY = re.compile(rb"(" + STRING + rb")[ \t\r\n]*:?[ \t\r\n]*", re.DOTALL)
_BARE = re.compile(rb"[^,}\] \t\r\n]+")
_EVENT = re.compile(rb'\{[ \t\r\n]*"(?:ph|name|cat|pid|ts)"')
_WITH_PHASE = re.compile(rb'\[[ \t\r\n]*\{[ \t\r\n]*"ph"')
"""Recognises a list of events by the key that Kineto writes first, because the list's own key may be damaged."""
_BOM = b"\xef\xbb\xbf"
_LONGEST = 8 << 20
_OVERLAP = 64
_BETWEEN = (b'},\n  {\n    "ph"', b'}, {"ph"', b'},{"ph"', b'},\n{"ph"')
"""Separators between events as written by torch and other tools; events separated like this are returned together."""


class Where(Enum):
    """The part of the file that is expected next."""

    BEGIN = 0
    ROOT = 1
    EVENTS = 2
    LOST = 3
    END = 4


class Splitter:
    """Takes pieces of a file and yields the texts of events; also collects `skipped`, `root` and `complete`."""

    def __init__(self) -> None:
        self.skipped: Counter[str] = Counter()
        self.root: list[tuple[bytes, bytes]] = []
        self.where = Where.BEGIN
        self._after = Where.END
        self._buffer = b""
        self._at = 0
        self._one_by_one_until = 0
        self._joined = False

    @property
    def complete(self) -> bool:
        """Whether the end of the JSON was reached."""
        return self.where is Where.END

    def feed(self, data: bytes, last: bool) -> Iterator[bytes]:
        """Yield the texts of complete events; events that look undamaged are joined by commas into one text."""
        self._buffer += data
        self._at = 0
        while True:
            before = self._at
            text = self._step(last)
            if text is None:
                self._at = before
                break
            if text:
                yield text
        if last and self.where is Where.EVENTS and self._rest():
            self.skipped["cut off at the end"] += 1
        self._buffer = b"" if last else self._buffer[self._at :]
        self._one_by_one_until -= self._at

    def reread(self, text: bytes) -> bool:
        """Whether the text last yielded was several events; if so, they are yielded again one at a time."""
        if self._joined:
            self._at -= len(text)
            self._one_by_one_until = self._at + len(text)
        return self._joined

    def damaged(self, event: bytes) -> None:
        """Report that the text last yielded could not be read, so that the search for events resumes inside it."""
        self.skipped["damaged"] += 1
        self._at -= len(event) - 1
        self.where = Where.LOST

    def _rest(self) -> bytes:
        return self._buffer[self._at :].strip(b" \t\r\n,")

    def _step(self, last: bool) -> bytes | None:
        """The text of the next event, empty if none was reached, None if more input is needed."""
        if self.where is Where.BEGIN:
            return self._begin(last)
        if self.where is Where.ROOT:
            return self._root_key(last)
        if self.where is Where.END:
            return self._end()
        return self._event() if self.where is Where.EVENTS else self._lost(last)

    def _begin(self, last: bool) -> bytes | None:
        if len(self._buffer) < len(_BOM) and not last:
            return None
        self._at = len(_BOM) if self._buffer.startswith(_BOM) else 0
        opening = self._next(_SPACE)
        if not opening:
            return None
        self.where = {b"[": Where.EVENTS, b"{": Where.ROOT}.get(opening, Where.LOST)
        self._after = Where.END if opening == b"[" else Where.ROOT
        if self.where is Where.LOST:
            self.skipped["not a JSON object or list at the beginning"] += 1
        else:
            self._at += 1
        return b""

    def _root_key(self, last: bool) -> bytes | None:
        opening = self._next(_SPACE_OR_COMMA)
        if not opening:
            return None
        if opening == b"}":
            self._at, self.where = self._at + 1, Where.END
            return b""
        start = self._at
        key = _KEY.match(self._buffer, start) if opening == b'"' else None
        readable = opening == b'"'
        if key is not None and key.end() < len(self._buffer):
            first = self._buffer[key.end() : key.end() + 1]
            # Events outside a list are searched for individually.
            readable = first not in (b",", b"}", b"]") and (first == b"[" or key[1] != b'"traceEvents"')
            if first == b"[" and (key[1] == b'"traceEvents"' or _WITH_PHASE.match(self._buffer, key.end())):
                self._at, self.where = key.end() + 1, Where.EVENTS
                return b""
            end = self._value_end(key.end()) if readable else None
            if end is not None:
                self.root.append((key[1][1:-1], self._buffer[key.end() : end]))
                self._at = end
                return b""
        if readable and not last and len(self._buffer) - start <= _LONGEST:
            return None
        self.skipped["unreadable between the file's keys"] += 1
        self._at, self.where = start + (opening == b'"'), Where.LOST
        return b""

    def _event(self) -> bytes | None:
        opening = self._next(_SPACE_OR_COMMA)
        if not opening:
            return None
        start = self._at
        if opening == b"]":
            self._at, self.where = start + 1, self._after
            return b""
        if opening == b"{":
            cut = -1
            if start >= self._one_by_one_until:
                cut = max(self._buffer.rfind(between, start) for between in _BETWEEN)
            self._joined = cut >= 0
            end = cut + 1 if self._joined else self._value_end(start)
            if end is not None:
                self._at = end
                return self._buffer[start:end]
            if len(self._buffer) - start <= _LONGEST:
                return None
        self.skipped["damaged"] += 1
        self._at, self.where = start + 1, Where.LOST
        return b""

    def _end(self) -> bytes | None:
        """Look for events after the end of the JSON, in case a stray bracket ended it too early."""
        if not self._next(_SPACE):
            return None
        self.skipped["unreadable behind the end"] += 1
        self.where = Where.LOST
        return b""

    def _lost(self, last: bool) -> bytes | None:
        if self._at >= len(self._buffer):
            return None
        match = _EVENT.search(self._buffer, self._at)
        if match is not None:
            self._at, self.where = match.start(), Where.EVENTS
        else:
            brace = self._buffer.rfind(b"{", max(self._at, len(self._buffer) - _OVERLAP))
            if brace >= 0 and not last:
                self._at = brace
                return None
            self._at = len(self._buffer)
        return b""

    def _next(self, spaces: re.Pattern[bytes]) -> bytes:
        """Skip `spaces` and return the next byte; empty at the end of the buffer."""
        match = spaces.match(self._buffer, self._at)
        assert match is not None
        self._at = match.end()
        return self._buffer[self._at : self._at + 1]

    def _value_end(self, at: int) -> int | None:
        """The end of the value that starts at `at`; None if it is not in the buffer yet."""
        if self._buffer[at : at + 1] not in (b"{", b"[", b'"'):
            bare = _BARE.match(self._buffer, at)
            return bare.end() if bare is not None and bare.end() < len(self._buffer) else None
        return value_end(self._buffer, at)


def value_end(data: bytes, at: int = 0) -> int | None:
    """The end of the string, object or list that starts at `at`; None if it does not end in `data`."""
    depth = 0
    for token in _TOKEN.finditer(data, at):
        first = token[0][:1]
        if first == b'"':
            if token.end() - token.start() == 1:
                return None
        else:
            depth += 1 if first in b"{[" else -1
        if depth <= 0:
            return token.end()
    return None
