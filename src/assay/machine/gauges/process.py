"""This process's memory, context switches and I/O, and the disk and network traffic of the whole machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import psutil

from assay.document.machine import Series
from assay.machine.gauges.gauge import Gauge, Readings

_DISKS = Path("/proc/diskstats")
_BLOCK = Path("/sys/block")
_SECTOR = 512
"""The kernel counts disk traffic in units of 512 bytes, regardless of the disk's own sector size."""


class ProcessMemory(Gauge):
    """The resident memory of this process."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self.series = [Series("process.rss", "B", "process")]

    def read(self) -> Readings:
        """Resident bytes."""
        return [float(self._process.memory_info().rss)]


class SystemCounts(Gauge):
    """System counters since the monitor started; `read_counters` returns all of them, or None if not supported."""

    def __init__(
        self, read_counters: Callable[[], Readings | None], names: Sequence[str], unit: str, scope: str
    ) -> None:
        self._read_counters = read_counters
        self.series = [Series(name, unit, scope) for name in names]
        self._first = read_counters()
        missing = names if self._first is None else ()
        self.problems = tuple(f"{name}: not counted by this system" for name in missing)

    def read(self) -> Readings:
        """The increase of each counter since the monitor started."""
        now = self._read_counters() if self._first is not None else None
        if now is None or self._first is None:
            return [None] * len(self.series)
        pairs = zip(now, self._first, strict=True)
        return [None if new is None or old is None else new - old for new, old in pairs]


def counts() -> list[SystemCounts]:
    """Gauges for this process's context switches and I/O bytes, and the machine's disk and network bytes."""
    return [
        SystemCounts(_switches, ("process.switches.voluntary", "process.switches.involuntary"), "1", "process"),
        SystemCounts(_own_bytes, ("process.read", "process.written"), "B", "process"),
        SystemCounts(disk_bytes(), ("disk.read", "disk.written"), "B", "machine"),
        SystemCounts(_network_bytes, ("network.received", "network.sent"), "B", "machine"),
    ]


def disk_bytes(table: Path = _DISKS, block: Path = _BLOCK) -> Callable[[], Readings | None]:
    """A function that returns the bytes read and written on whole disks, from the kernel's table if there is one."""
    disks = {path.name for path in block.glob("*") if not path.name.startswith(("loop", "ram", "zram"))}
    return partial(_from_table, table, disks) if disks and table.exists() else _disks


def _from_table(table: Path, disks: set[str]) -> Readings | None:
    # A line: major, minor, name, then reads, merged, sectors read, ms, writes, merged, sectors written, …
    rows = [line.split() for line in table.read_text().splitlines()]
    kept = [row for row in rows if len(row) > 9 and row[2] in disks]
    return [_SECTOR * float(sum(int(row[column]) for row in kept)) for column in (5, 9)]


def _disks() -> Readings | None:
    counters = psutil.disk_io_counters()
    return None if counters is None else [float(counters.read_bytes), float(counters.write_bytes)]


def _switches() -> Readings | None:
    if os.name != "posix":
        return None
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    return [float(used.ru_nvcsw), float(used.ru_nivcsw)]


def _own_bytes() -> Readings | None:
    if not hasattr(psutil.Process, "io_counters"):
        return None
    counters = psutil.Process().io_counters()
    return [float(counters.read_bytes), float(counters.write_bytes)]


def _network_bytes() -> Readings | None:
    counters = psutil.net_io_counters()
    return None if counters is None else [float(counters.bytes_recv), float(counters.bytes_sent)]
