"""Process-wide state that passes in several threads change in the same way.

The first to enter changes it and the last to leave restores it. If each restored the state it had found, the change
would remain after overlapping passes.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any


class Shared:
    """A context manager shared by threads: the first to enter enters `change()`, the last to leave exits it."""

    def __init__(self, change: Callable[[], contextlib.AbstractContextManager[None]]) -> None:
        self._change = change
        self._lock = threading.RLock()
        self._stack = contextlib.ExitStack()
        self._users = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                self._stack.enter_context(self._change())
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._stack.close()


@contextlib.contextmanager
def attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Set an attribute to `value` inside the block, and restore it afterwards."""
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)
