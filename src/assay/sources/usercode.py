"""Running user code: its output goes to stderr, and its errors become one line plus the user's own frames."""

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
from assay.messages import error_line, one_line

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARIES = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib"))


@contextlib.contextmanager
def guarded(what: str, remedy: str = "") -> Iterator[None]:
    """Run a block of user code: its output goes to stderr, an error becomes a `UserCodeError` that names `what`."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (Exception, SystemExit) as error:
        raise UserCodeError(f"{what} raised {error_line(error)}{remedy}", own_frames(error)) from error


def own_frames(error: BaseException) -> str:
    """The traceback of `error` with only the user's frames; if there are none, all frames outside Assay."""
    outside_frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_OURS, "<frozen importlib"))
    ]
    user_frames = [frame for frame in outside_frames if not frame.filename.startswith((*_LIBRARIES, "<frozen"))]
    lines = traceback.format_list(user_frames or outside_frames)
    return "".join([*lines, *traceback.format_exception_only(type(error), error)])


def call(function: Callable[..., Any], what: str, arguments: Mapping[str, Any] | None = None, hint: str = "") -> Any:
    """The result of `function(**arguments)`; raises `UsageError` if the arguments do not match its signature."""
    keywords = dict(arguments or {})
    _check_arguments(function, what, keywords, hint)
    with guarded(what):
        return function(**keywords)


def _check_arguments(function: Callable[..., Any], what: str, keywords: Mapping[str, Any], hint: str) -> None:
    """Raise `UsageError` if `function` cannot be called with these keyword arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # Some builtins have no signature: only the call itself can show a mismatch.
        return
    try:
        signature.bind(**keywords)
    except TypeError as error:
        parameters = one_line(", ".join(str(parameter) for parameter in signature.parameters.values()))
        takes = f"it takes ({parameters}){hint}" if parameters else "it takes no arguments"
        raise UsageError(f"cannot call {what}: {one_line(error)}; {takes}") from error
