"""Repairs the JSON of an event: escapes quotes and line ends, writes nan and inf as null, replaces invalid bytes."""

from __future__ import annotations

import re

from assay.trace.read.splitting import STRING

_PART = re.compile(rb"(" + STRING + rb')|([^"]+|")', re.DOTALL)
_BRACE = re.compile(rb"[{}]")
_COLON = re.compile(rb"[ \t\r\n]*:")
_BARE_WORD = re.compile(rb"[+-]?\b(?:nan|inf|infinity)\b", re.IGNORECASE)
_IN_STRING = re.compile(r'\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt])|["\\]|[\x00-\x1f]')


def runs_on(event: bytes) -> bool:
    """Whether a string runs into the next event's first key, because the end of this event is missing."""
    strings = (part for part in _PART.finditer(event) if part[1] is not None)
    keys = (part[1][1:-1] for part in strings if _COLON.match(event, part.end()))
    return any(b'"' in key and _BRACE.search(key) for key in keys)


def repaired(event: bytes) -> bytes:
    """The event with its strings and numbers repaired; other damage is left as it is."""
    return b"".join(
        _string(part[1]) if part[1] is not None else _BARE_WORD.sub(b"null", part[2])
        for part in _PART.finditer(event)
    )


def _string(raw: bytes) -> bytes:
    text = raw[1:-1].decode("utf-8", "replace")
    return b'"' + _IN_STRING.sub(_escaped, text).encode() + b'"'


def _escaped(match: re.Match[str]) -> str:
    text = match[0]
    if len(text) > 1:
        return text
    return f"\\{text}" if text in '"\\' else f"\\u{ord(text):04x}"
