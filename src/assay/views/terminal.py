"""What a stream can display: how many columns, colour, escape codes, and more than ASCII."""

from __future__ import annotations

import os
from typing import TextIO

_FALLBACK_COLUMNS = 80


def columns(stream: TextIO) -> int:
    """The columns of the terminal that `stream` is, now: it may be resized while the command runs."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _FALLBACK_COLUMNS
    except (OSError, ValueError):
        return _FALLBACK_COLUMNS


def knows_escapes() -> bool:
    """Whether the terminal interprets escape codes."""
    return os.environ.get("TERM") != "dumb"


def has_color(is_terminal: bool) -> bool:
    """Whether to use colour: never with NO_COLOR or TERM=dumb, else always with FORCE_COLOR, else on a terminal.

    As no-color.org and force-color.org define them, both variables count with any value that is not empty.
    """
    if os.environ.get("NO_COLOR") or not knows_escapes():
        return False
    return bool(os.environ.get("FORCE_COLOR")) or is_terminal


def is_utf8(stream: TextIO | None) -> bool:
    """Whether `stream` displays more than ASCII: it is UTF-8, and no locale variable asks for C or POSIX.

    Python itself takes the C locale for UTF-8, and sets LC_CTYPE accordingly, unless PYTHONIOENCODING is set.
    """
    encoding = getattr(stream, "encoding", None) or ""
    locale = next(filter(None, map(os.environ.get, ("PYTHONIOENCODING", "LC_ALL", "LANG"))), "")
    return encoding.lower().replace("-", "") == "utf8" and locale not in ("C", "POSIX")
