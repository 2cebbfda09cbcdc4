"""How long this process's threads waited for a processor that others were using."""

from __future__ import annotations

import os
import threading
from pathlib import Path

_TASKS = Path("/proc/self/task")


class ProcessorWait:
    """Adds up the time that all threads of this process were ready to run but had no processor.

    The kernel counts it per thread (`schedstat`). The files stay open, because one is read per thread and pass. The
    calling thread's own is read first: a thread often loses its processor in a system call, and what follows that
    call should not count.
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
        for thread in sorted(set(threads) - set(self._files), key=lambda each: each != self._own):
            self._read(thread)

    def total_ns(self) -> int | None:
        """Nanoseconds waited since the threads started; None if the kernel does not count them."""
        for thread in self._files:
            self._read(thread)
        return sum(self._waited.values()) if self._waited else None

    def _read(self, thread: str) -> None:
        try:
            if thread not in self._files:
                self._files[thread] = os.open(self._tasks / thread / "schedstat", os.O_RDONLY)
            # Three numbers: time on a processor, time waiting for one, time slices.
            self._waited[thread] = int(os.pread(self._files[thread], 128, 0).split()[1])
        except (OSError, ValueError, IndexError):
            return
