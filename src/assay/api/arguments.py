"""Checks of arguments that several verbs share: a wrong value raises UsageError instead of a raw Python error."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from assay.errors import UsageError
from assay.messages import one_line


def check_whole(name: str, value: Any, least: int = 1, *, optional: bool = False) -> None:
    """Raise UsageError unless `value` is an integer of at least `least`, or None if it is optional."""
    valid = _is_a(Integral, value) and value >= least
    if not (valid or (optional and value is None)):
        raise _wrong(name, value, "a positive integer" if least == 1 else f"an integer of at least {least}")


def check_flag(name: str, value: Any) -> None:
    """Raise UsageError unless `value` is True or False."""
    if not isinstance(value, bool):
        raise _wrong(name, value, "True or False")


def check_number(name: str, value: Any, least: float = -math.inf, *, optional: bool = False) -> None:
    """Raise UsageError unless `value` is a finite number of at least `least`, or None if it is optional."""
    number = _is_a(Real, value) and math.isfinite(value)
    if not ((number and value >= least) or (optional and value is None)):
        raise _wrong(name, value, "a finite number" if least == -math.inf else f"a number of at least {least:g}")


def check_text(name: str, value: Any, example: str, *, optional: bool = False) -> None:
    """Raise UsageError unless `value` is a string, or None if it is optional; the message quotes `example`."""
    if not (isinstance(value, str) or (optional and value is None)):
        raise _wrong(name, value, f"a string such as {example!r}")


def check_callable(name: str, value: Any, *, optional: bool = False) -> None:
    """Raise UsageError unless `value` can be called, or is None if it is optional."""
    if not (callable(value) or (optional and value is None)):
        raise _wrong(name, value, "a function")


def sequence_of(name: str, value: Any) -> Sequence[Any]:
    """`value` if it is a sequence other than a string; UsageError otherwise."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise _wrong(name, value, "a list")
    return value


def list_of(name: str, value: Any) -> list[Any]:
    """The items of `value` as a list; UsageError unless it is an iterable other than a string."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise _wrong(name, value, "a list")
    return list(value)


def path_of(name: str, value: Any) -> Path:
    """`value` as a Path; UsageError unless it is a string or a Path, without null characters."""
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(text, str) or "\0" in text:
        raise _wrong(name, value, "a valid path")
    return Path(text)


def _is_a(kind: type, value: Any) -> bool:
    """Whether `value` is a number of this kind, of Python or numpy; booleans are not numbers here."""
    return isinstance(value, kind) and not isinstance(value, bool)


def _wrong(name: str, value: Any, expected: str) -> UsageError:
    return UsageError(f"{name} must be {expected}, got {one_line(repr(value), 80)}")
