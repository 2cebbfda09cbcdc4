"""The events of a trace as separate texts, from a file that comes in pieces and may be damaged.

In JSON only a colon, a comma or a closing bracket follows a string, so a quote before anything else is part of
the text: Kineto writes names unescaped.
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
"""A list of events by the key that Kineto writes first: the list's own key may be damaged."""
_BOM = b"\xef\xbb\xbf"
_LONGEST = 8 << 20
_OVERLAP = 64
_BETWEEN = (b'},\n  {\n    "ph"', b'}, {"ph"', b'},{"ph"', b'},\n{"ph"')
"""Between two events as torch and other writers put it; many are handed out at once where it is found."""


class Where(Enum):
    """What comes next in the file."""

    BEGIN = 0
    ROOT = 1
    EVENTS = 2
    LOST = 3
    END = 4


class Splitter:
    """Feeds in, event texts out; `skipped`, `root` and `complete` tell the rest."""

    def __init__(self) -> None:
        self.skipped: Counter[str] = Counter()
        self.root: list[tuple[bytes, bytes]] = []
        self.where = Where.BEGIN
        self._after = Where.END
        self._held = b""
        self._at = 0
        self._one_by_one_until = 0
        self._joined = False

    @property
    def complete(self) -> bool:
        """Whether the end of the JSON was reached."""
        return self.where is Where.END

    def feed(self, data: bytes, last: bool) -> Iterator[bytes]:
        """The texts of events that are whole by now; several joined by commas where they look sound."""
        self._held += data
        self._at = 0
        while True:
            before = self._at
            found = self._step(last)
            if found is None:
                self._at = before
                break
            if found:
                yield found
        if last and self.where is Where.EVENTS and self._rest():
            self.skipped["cut off at the end"] += 1
        self._held = b"" if last else self._held[self._at :]
        self._one_by_one_until -= self._at

    def reread(self, text: bytes) -> bool:
        """Whether the text just handed out was several joined: they then come again one by one."""
        if self._joined:
            self._at -= len(text)
            self._one_by_one_until = self._at + len(text)
        return self._joined

    def damaged(self, event: bytes) -> None:
        """Says that the text just handed out could not be read: the search goes on inside it."""
        self.skipped["damaged"] += 1
        self._at -= len(event) - 1
        self.where = Where.LOST

    def _rest(self) -> bytes:
        return self._held[self._at :].strip(b" \t\r\n,")

    def _step(self, last: bool) -> bytes | None:
        """An event's text, nothing where none was met, None where more is needed."""
        if self.where is Where.BEGIN:
            return self._begin(last)
        if self.where is Where.ROOT:
            return self._root_key(last)
        if self.where is Where.END:
            return self._end()
        return self._event() if self.where is Where.EVENTS else self._lost(last)

    def _begin(self, last: bool) -> bytes | None:
        if len(self._held) < len(_BOM) and not last:
            return None
        self._at = len(_BOM) if self._held.startswith(_BOM) else 0
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
        key = _KEY.match(self._held, start) if opening == b'"' else None
        readable = opening == b'"'
        if key is not None and key.end() < len(self._held):
            first = self._held[key.end() : key.end() + 1]
            # Events that are in no list are looked for one by one.
            readable = first not in (b",", b"}", b"]") and (first == b"[" or key[1] != b'"traceEvents"')
            if first == b"[" and (key[1] == b'"traceEvents"' or _WITH_PHASE.match(self._held, key.end())):
                self._at, self.where = key.end() + 1, Where.EVENTS
                return b""
            end = self._value_end(key.end()) if readable else None
            if end is not None:
                self.root.append((key[1][1:-1], self._held[key.end() : end]))
                self._at = end
                return b""
        if readable and not last and len(self._held) - start <= _LONGEST:
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
                cut = max(self._held.rfind(between, start) for between in _BETWEEN)
            self._joined = cut >= 0
            end = cut + 1 if self._joined else self._value_end(start)
            if end is not None:
                self._at = end
                return self._held[start:end]
            if len(self._held) - start <= _LONGEST:
                return None
        self.skipped["damaged"] += 1
        self._at, self.where = start + 1, Where.LOST
        return b""

    def _end(self) -> bytes | None:
        """Behind the end of the JSON nothing should follow; where the end came too early, events do."""
        if not self._next(_SPACE):
            return None
        self.skipped["unreadable behind the end"] += 1
        self.where = Where.LOST
        return b""

    def _lost(self, last: bool) -> bytes | None:
        if self._at >= len(self._held):
            return None
        found = _EVENT.search(self._held, self._at)
        if found is not None:
            self._at, self.where = found.start(), Where.EVENTS
        else:
            brace = self._held.rfind(b"{", max(self._at, len(self._held) - _OVERLAP))
            if brace >= 0 and not last:
                self._at = brace
                return None
            self._at = len(self._held)
        return b""

    def _next(self, spaces: re.Pattern[bytes]) -> bytes:
        """Goes behind `spaces`; the byte there, or nothing at the end of what is held."""
        found = spaces.match(self._held, self._at)
        assert found is not None
        self._at = found.end()
        return self._held[self._at : self._at + 1]

    def _value_end(self, at: int) -> int | None:
        """Where the value that begins at `at` ends; None where that has not come yet."""
        if self._held[at : at + 1] not in (b"{", b"[", b'"'):
            bare = _BARE.match(self._held, at)
            return bare.end() if bare is not None and bare.end() < len(self._held) else None
        return value_end(self._held, at)


def value_end(data: bytes, at: int = 0) -> int | None:
    """Where the string, object or list that begins at `at` ends; None where it does not."""
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
