"""stdout is data: whatever a model prints while it is watched, also from C, goes to stderr."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

_STDOUT, _STDERR = 1, 2


@contextlib.contextmanager
def prints_to_stderr() -> Iterator[None]:
    """Prints inside go to stderr, those of Python and those of the libraries below it."""
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
