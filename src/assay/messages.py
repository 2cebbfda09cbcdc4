"""Other people's names and messages, made fit for one line of ours."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable

LONGEST = 160
"""Characters of a foreign name or message that an error line still carries."""


def brief(value: object, limit: int = LONGEST) -> str:
    """`value` on one line, control characters made visible, its middle cut out beyond `limit`."""
    text = str(value)
    if len(text) > limit:
        text = f"{text[: limit * 2 // 3]}...{text[-limit // 4 :]}"
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def said(error: BaseException) -> str:
    """`ValueError: the message` on one line, also where the exception's own `__str__` fails."""
    kind = type(error).__name__
    if isinstance(error, SyntaxError):
        return f"{kind}: {brief(error)}"
    first = traceback.format_exception_only(type(error), error)[0]
    message = " ".join(first.partition(": ")[2].split())
    return f"{kind}: {brief(message)}" if message else kind


def nearest(name: str, known: Iterable[str]) -> str:
    """A clause that helps after a wrong name: `did you mean load_model?` or `it has a, b, c`."""
    names = list(known)
    close = difflib.get_close_matches(brief(name), names, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(close)}?"
    if not names:
        return "it has nothing to call"
    return f"it has {', '.join(names[:6])}{', ...' if len(names) > 6 else ''}"


def kind_name(value: object) -> str:
    """The name of `value`'s type as a person would write it."""
    return "None" if value is None else type(value).__name__
