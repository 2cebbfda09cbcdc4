"""Texts of a trace as people wrote them: escapes undone, quotes that nobody escaped kept, bad bytes replaced."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r'\\(u[0-9a-fA-F]{4}|["\\/bfnrt])')
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def plain(raw: bytes, quoted: bool = False) -> str:
    """The text that `raw` writes in JSON; with `quoted` without the quotes around it, where there are any."""
    if quoted and len(raw) >= 2 and raw[:1] == b'"' == raw[-1:]:
        raw = raw[1:-1]
    text = raw.decode("utf-8", "replace")
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_unescaped, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    return chr(int(code[1:], 16)) if code[0] == "u" else _SHORT.get(code, code)
