"""How long this process's threads waited for a processor that others were using."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

_TASKS = Path("/proc/self/task")


class ProcessorWait:
    """Adds up the time that all threads of this process were ready to run but had no processor.

    The kernel counts it per thread (`schedstat`). The files stay open, because one is read per thread and pass.
    """

    def __init__(self, tasks: Path = _TASKS) -> None:
        self._tasks = tasks
        self._files: dict[str, int] = {}
        self._ended_ns = 0
        self._last: dict[str, int] = {}

    def __enter__(self) -> Callable[[], int | None]:
        return self.total_ns

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    def total_ns(self) -> int | None:
        """Nanoseconds waited since the threads started; None if the kernel does not count them."""
        try:
            threads = os.listdir(self._tasks)
        except OSError:
            return None
        for thread in set(self._files) - set(threads):
            self._forget(thread)
        for thread in threads:
            waited = self._waited_ns(thread)
            if waited is not None:
                self._last[thread] = waited
        return self._ended_ns + sum(self._last.values()) if self._last else None

    def _waited_ns(self, thread: str) -> int | None:
        try:
            if thread not in self._files:
                self._files[thread] = os.open(self._tasks / thread / "schedstat", os.O_RDONLY)
            # Three numbers: time on a processor, time waiting for one, time slices.
            return int(os.pread(self._files[thread], 128, 0).split()[1])
        except (OSError, ValueError, IndexError):
            return None

    def _forget(self, thread: str) -> None:
        """Keep the total of a thread that ended, so that the sum never decreases."""
        os.close(self._files.pop(thread))
        self._ended_ns += self._last.pop(thread, 0)
