"""Wording shared by all messages: foreign names and errors on one line, hints, counts with their nouns."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST = 160
"""Characters of a foreign name or message that an error line still carries."""
_LONGEST_LINE = 500
"""The same for a message that is a whole line by itself."""


def brief(value: object, limit: int = LONGEST) -> str:
    """`value` on one line, control characters made visible, its middle cut out beyond `limit`."""
    text = str(value)
    if len(text) > limit:
        text = f"{text[: limit * 2 // 3]}...{text[-limit // 4 :]}"
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def error_line(error: BaseException, limit: int = LONGEST) -> str:
    """`ValueError: the message`, the whole message on one line."""
    message = brief(" ".join(_message(error).split()), limit)
    return f"{kind_name(error)}: {message}" if message else kind_name(error)


def first_line(error: BaseException) -> str:
    """The first line of the message alone; the name of the exception where it has no message."""
    lines = _message(error).strip().splitlines()
    return brief(lines[0], _LONGEST_LINE) if lines else kind_name(error)


def nearest(name: str, known: Iterable[str]) -> str:
    """A clause that helps after a wrong name: `did you mean load_model?` or `it has a, b, c`."""
    names = list(known)
    close = difflib.get_close_matches(brief(name), names, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(close)}?"
    if not names:
        return "it has nothing to call"
    return f"it has {', '.join(names[:6])}{', ...' if len(names) > 6 else ''}"


def plural(count: int, noun: str, many: str | None = None) -> str:
    """A count with its noun: "1 cell", "2 biases", "3 entries"; `many` is the plural if it is irregular.

    >>> plural(1, "cell"), plural(1200, "bias"), plural(2, "query", "queries")
    ('1 cell', '1,200 biases', '2 queries')
    """
    regular = f"{noun}{'es' if noun.endswith('s') else 's'}"
    return f"{count:,} {noun if count == 1 else many or regular}"


def kind_name(value: object) -> str:
    """The name of `value`'s type as a person would write it."""
    return "None" if value is None else type(value).__name__


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  the error is the user's, and so is its __str__
        return "<the message cannot be printed>"
