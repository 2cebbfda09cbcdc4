"""What a stream can display: colour, and more than ASCII."""

from __future__ import annotations

import os
from typing import TextIO


def has_color(is_terminal: bool) -> bool:
    """Whether to use colour: never with NO_COLOR or TERM=dumb, else as FORCE_COLOR says, else on terminals."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    forced = os.environ.get("FORCE_COLOR", "")
    return forced != "0" if forced else is_terminal


def is_utf8(stream: TextIO | None) -> bool:
    """Whether `stream` displays more than ASCII: it is UTF-8, and no locale variable asks for C or POSIX.

    Python itself takes the C locale for UTF-8, and sets LC_CTYPE accordingly, unless PYTHONIOENCODING is set.
    """
    encoding = getattr(stream, "encoding", None) or ""
    locale = next(filter(None, map(os.environ.get, ("PYTHONIOENCODING", "LC_ALL", "LANG"))), "")
    return encoding.lower().replace("-", "") == "utf8" and locale not in ("C", "POSIX")
