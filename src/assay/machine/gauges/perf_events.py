"""Hardware counters of this process through Linux perf events, if the kernel permits them."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Mapping
from pathlib import Path

from assay import host
from assay.document.machine import Series
from assay.machine.gauges.gauge import Gauge, Readings

HARDWARE = 0
EVENTS = {"cache.references": (HARDWARE, 2), "cache.misses": (HARDWARE, 3)}
"""Counter type and number, as defined in the kernel's `perf_event.h`."""

_CALLS = {"x86_64": 298, "aarch64": 241}
_SIZE = 112
_INHERIT, _NO_KERNEL, _NO_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_TASKS = Path("/proc/self/task")
_REASONS = {
    errno.EACCES: "not permitted (kernel.perf_event_paranoid)",
    errno.EPERM: "not permitted (kernel.perf_event_paranoid)",
    errno.ENOENT: "not supported by this processor or virtual machine",
    errno.ENOSYS: "the kernel does not support perf events",
}


class PerfEvents(Gauge):
    """Counts since the monitor started, over all threads that existed then and the threads they started."""

    def __init__(self, events: Mapping[str, tuple[int, int]] = EVENTS) -> None:
        self._open: list[list[int]] = []
        problems = []
        for name, (kind, number) in events.items():
            opened = _opened(kind, number)
            self._open.append([] if isinstance(opened, str) else opened)
            if isinstance(opened, str):
                problems.append(f"{name}: {opened}")
        self.series = [Series(name, "1", "process") for name in events]
        self.problems = tuple(problems)

    def read(self) -> Readings:
        """The sum over threads, per event."""
        return [float(sum(map(_count, files))) if files else None for files in self._open]

    def close(self) -> None:
        """Close every counter."""
        for files in self._open:
            while files:
                os.close(files.pop())


def _opened(kind: int, number: int) -> list[int] | str:
    """One open counter per thread, or why none could be opened."""
    if sys.platform != "linux" or host.architecture() not in _CALLS:
        return "available only on Linux (x86-64 and arm64)"
    files: list[int] = []
    for task in sorted(_TASKS.iterdir()):
        file = _open_one(kind, number, int(task.name))
        if file >= 0:
            files.append(file)
        elif not files:
            code = -file
            return _REASONS.get(code, os.strerror(code))
    return files


def _open_one(kind: int, number: int, thread: int) -> int:
    """The file descriptor of a counter for `thread`, or the negative errno."""
    flags = _INHERIT | _NO_KERNEL | _NO_HYPERVISOR
    attributes = struct.pack("IIQQQQQ", kind, _SIZE, number, 0, 0, 0, flags).ljust(_SIZE, b"\0")
    library = ctypes.CDLL(None, use_errno=True)
    file = int(library.syscall(_CALLS[host.architecture()], attributes, thread, -1, -1, 0))
    return file if file >= 0 else -ctypes.get_errno()


def _count(file: int) -> int:
    return int(struct.unpack("Q", os.read(file, 8))[0])
