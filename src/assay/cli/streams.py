"""The standard streams: stdout is kept for data, so what others print goes to stderr or nowhere, also from C."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

_STDOUT, _STDERR = 1, 2


@contextlib.contextmanager
def prints_to_stderr() -> Iterator[None]:
    """Redirect stdout to stderr, for Python code and for native libraries."""
    if sys.stdout is not None:
        sys.stdout.flush()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        _redirect(_STDOUT, _STDERR, stack)
        yield


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Discard what is printed on stdout and stderr, by Python code and by native libraries."""
    with contextlib.ExitStack() as stack:
        nothing = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
        stack.enter_context(contextlib.redirect_stdout(nothing))
        stack.enter_context(contextlib.redirect_stderr(nothing))
        for descriptor in (_STDOUT, _STDERR):
            _redirect(descriptor, nothing.fileno(), stack)
        yield


def _redirect(descriptor: int, target: int, stack: contextlib.ExitStack) -> None:
    """Let a file descriptor be `target` until `stack` is closed."""
    with contextlib.suppress(OSError):  # a process without these streams has nothing to redirect
        saved = os.dup(descriptor)
        stack.callback(os.close, saved)
        os.dup2(target, descriptor)
        stack.callback(os.dup2, saved, descriptor)
