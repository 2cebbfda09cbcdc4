"""The standard streams: stdout is kept for data, so what a model prints goes to stderr, including output from C."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TextIO

_STDOUT, _STDERR = 1, 2
_FALLBACK_COLUMNS = 80


@contextlib.contextmanager
def prints_to_stderr() -> Iterator[None]:
    """Redirect stdout to stderr, for Python code and for native libraries."""
    if sys.stdout is not None:
        sys.stdout.flush()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        with contextlib.suppress(OSError):  # a process without these streams has nothing to redirect
            saved = os.dup(_STDOUT)
            stack.callback(os.close, saved)
            os.dup2(_STDERR, _STDOUT)
            stack.callback(os.dup2, saved, _STDOUT)
        yield


def is_utf8(stream: TextIO | None) -> bool:
    """Whether `stream` displays more than ASCII: it is UTF-8, and no locale variable asks for C or POSIX.

    Python itself takes the C locale for UTF-8, and sets LC_CTYPE accordingly, unless PYTHONIOENCODING is set.
    """
    encoding = getattr(stream, "encoding", None) or ""
    locale = next(filter(None, map(os.environ.get, ("PYTHONIOENCODING", "LC_ALL", "LANG"))), "")
    return encoding.lower().replace("-", "") == "utf8" and locale not in ("C", "POSIX")


def columns(stream: TextIO) -> int:
    """The columns of the terminal that `stream` is, now: it may be resized while the command runs."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _FALLBACK_COLUMNS
    except (OSError, ValueError):
        return _FALLBACK_COLUMNS
