"""Helpers for messages: values and exceptions on one line, suggestions for misspelt names, counts with nouns."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

ALLOW_CODE = "allow it with --trust (trust=True in Python) if you trust its author"
"""The end of every message about code that is run only for trusted files."""
MAX_QUOTED = 160
"""Maximum length, in characters, of a name or message quoted inside an error line."""
_LONGEST_LINE = 500
"""Maximum length, in characters, of an exception's message that is printed as a line of its own."""


def one_line(value: object, limit: int = MAX_QUOTED) -> str:
    """`str(value)` on one line: control characters escaped, the middle cut out if it exceeds `limit` characters."""
    text = str(value)
    if len(text) > limit:
        text = f"{text[: limit * 2 // 3]}...{text[-limit // 4 :]}"
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def as_utf8(text: str) -> str:
    """`text` as every file and terminal can hold it: bytes of a file name that are not UTF-8 become `\\udcff`."""
    return text.encode("utf-8", "backslashreplace").decode()


def error_line(error: BaseException, limit: int = MAX_QUOTED) -> str:
    """The exception's type and message joined into one line, for example `ValueError: the message`."""
    message = one_line(" ".join(_message(error).split()), limit)
    return f"{type_name(error)}: {message}" if message else type_name(error)


def first_line(error: BaseException) -> str:
    """The first line of the exception's message, or the name of its type if the message is empty."""
    lines = _message(error).strip().splitlines()
    return one_line(lines[0], _LONGEST_LINE) if lines else type_name(error)


def name_suggestion(name: str, known: Iterable[str], *, listing: bool = True) -> str:
    """A suggestion for a misspelt name: `did you mean load_model?`, or `it has a, b, c` if no name is close.

    Without `listing`, it is `check the name` if no name is close.
    """
    names = list(known)
    close = difflib.get_close_matches(one_line(name), names, n=3, cutoff=0.5)
    if close:
        return f"did you mean {alternatives(close)}?"
    if not listing:
        return "check the name"
    if not names:
        return "it defines nothing that can be called"
    return f"it has {', '.join(names[:6])}{', ...' if len(names) > 6 else ''}"


def alternatives(names: Sequence[str]) -> str:
    """The names as a choice: `A`, `A or B`, `A, B or C`."""
    return " or ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def unreadable(path: object, error: OSError | ValueError, reason: str = "") -> str:
    """The message for a file that cannot be opened; `reason` replaces the operating system's."""
    if isinstance(error, FileNotFoundError) and error.strerror:
        return f"no such file or directory: {one_line(path)}"
    return f"cannot read {one_line(path)}: {reason or getattr(error, 'strerror', None) or error_line(error)}"


def plural(count: int, noun: str, many: str | None = None) -> str:
    """A count with its noun in the singular or plural; `many` is the plural form if it is irregular.

    >>> plural(1, "cell"), plural(1200, "bias"), plural(2, "query", "queries")
    ('1 cell', '1,200 biases', '2 queries')
    """
    regular = f"{noun}{'es' if noun.endswith('s') else 's'}"
    return f"{count:,} {noun if count == 1 else many or regular}"


def type_name(value: object) -> str:
    """The name of `value`'s type, or `None` for None."""
    return "None" if value is None else type(value).__name__


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  __str__ of a user's exception may raise anything
        return "<the message cannot be printed>"
