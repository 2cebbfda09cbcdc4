"""Decodes JSON strings of a trace: resolves escapes, keeps unescaped quotes, and replaces invalid bytes."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r'\\(u[0-9a-fA-F]{4}|["\\/bfnrt])')
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def plain(raw: bytes, quoted: bool = False) -> str:
    """The text of the JSON string `raw`; `quoted` removes the surrounding quotes, if there are any."""
    if quoted and len(raw) >= 2 and raw[:1] == b'"' == raw[-1:]:
        raw = raw[1:-1]
    text = raw.decode("utf-8", "replace")
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_unescaped, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if code[0] == "u" else _SHORT.get(code, code)
