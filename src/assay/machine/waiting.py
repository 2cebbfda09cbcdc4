"""How long this process's threads waited for a processor that others were using."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import NamedTuple

_TASKS = Path("/proc/self/task")


class Waited(NamedTuple):
    """Nanoseconds that threads waited for a processor since they started."""

    own: int
    """Of the thread that created the counter."""
    others: int
    """Of all other threads of this process, of those that ended too."""


class ProcessorWait:
    """Adds up the time that all threads of this process were ready to run but had no processor.

    The kernel counts it per thread (`schedstat`). The files stay open, because one is read per thread and pass.
    """

    def __init__(self, tasks: Path = _TASKS) -> None:
        self._tasks = tasks
        self._own = str(threading.get_native_id())
        self._files: dict[str, int] = {}
        self._waited: dict[str, int] = {}
        """Nanoseconds by thread, of threads that ended too: the sum never decreases."""

    def __enter__(self) -> ProcessorWait:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    def refresh(self) -> None:
        """Find threads that started or ended."""
        try:
            threads = os.listdir(self._tasks)
        except OSError:
            return
        for thread in set(self._files) - set(threads):
            os.close(self._files.pop(thread))
        for thread in set(threads) - set(self._files):
            self._read(thread)

    def read(self) -> Waited | None:
        """How long the threads waited; None if the kernel does not count it."""
        for thread in self._files:
            self._read(thread)
        if not self._waited:
            return None
        own = self._waited.get(self._own, 0)
        return Waited(own, sum(self._waited.values()) - own)

    def _read(self, thread: str) -> None:
        try:
            if thread not in self._files:
                self._files[thread] = os.open(self._tasks / thread / "schedstat", os.O_RDONLY)
            # Three numbers: time on a processor, time waiting for one, time slices.
            self._waited[thread] = int(os.pread(self._files[thread], 128, 0).split()[1])
        except (OSError, ValueError, IndexError):
            return
