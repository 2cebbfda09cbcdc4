"""The standard streams: stdout is kept for data, so what a model prints goes to stderr, including output from C."""

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
        with contextlib.suppress(OSError):  # a process without these streams has nothing to redirect
            saved = os.dup(_STDOUT)
            stack.callback(os.close, saved)
            os.dup2(_STDERR, _STDOUT)
            stack.callback(os.dup2, saved, _STDOUT)
        yield
