"""Running code that is not ours: its output kept off stdout, its failures in one line with its own frames."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from assay.errors import UsageError, UserCodeError
from assay.messages import brief, error_line

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARIES = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib"))


@contextlib.contextmanager
def guarded(what: str) -> Iterator[None]:
    """A block of foreign code called `what`; stdout is data, so what it prints goes to stderr."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (Exception, SystemExit) as error:
        raise UserCodeError(f"{what} raised {error_line(error)}", own_frames(error)) from error


def own_frames(error: BaseException) -> str:
    """The traceback of `error` cut to the user's lines; to all but ours where it has none."""
    foreign = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_OURS, "<frozen importlib"))
    ]
    theirs = [frame for frame in foreign if not frame.filename.startswith((*_LIBRARIES, "<frozen"))]
    lines = traceback.format_list(theirs or foreign)
    return "".join([*lines, *traceback.format_exception_only(type(error), error)])


def call(function: Callable[..., Any], what: str, arguments: Mapping[str, Any] | None = None, hint: str = "") -> Any:
    """What `function(**arguments)` returns; arguments that do not fit its signature are a UsageError."""
    given = dict(arguments or {})
    _check_fit(function, what, given, hint)
    with guarded(what):
        return function(**given)


def _check_fit(function: Callable[..., Any], what: str, given: Mapping[str, Any], hint: str) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # Some builtins have no signature: calling them is the only way to know.
        return
    try:
        signature.bind(**given)
    except TypeError as error:
        wanted = brief(", ".join(str(parameter) for parameter in signature.parameters.values()))
        takes = f"it takes ({wanted}){hint}" if wanted else "it takes no arguments"
        raise UsageError(f"{what} does not fit: {brief(error)}; {takes}") from error
