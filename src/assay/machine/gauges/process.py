"""This process: memory, context switches, bytes it read and wrote; and what the whole machine moved meanwhile."""

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
"""What the kernel counts disk traffic in, whatever the disk's own sectors are."""


class ProcessMemory(Gauge):
    """What this process holds in memory now."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self.series = [Series("process.rss", "B", "process")]

    def read(self) -> Readings:
        """Bytes resident."""
        return [float(self._process.memory_info().rss)]


class SystemCounts(Gauge):
    """Counts of the system since the monitor began, from one function that returns them all, or None."""

    def __init__(self, look: Callable[[], Readings | None], names: Sequence[str], unit: str, scope: str) -> None:
        self._look = look
        self.series = [Series(name, unit, scope) for name in names]
        self._first = look()
        lost = names if self._first is None else ()
        self.problems = tuple(f"{name}: the system does not count it" for name in lost)

    def read(self) -> Readings:
        """What was added."""
        now = self._look() if self._first is not None else None
        if now is None or self._first is None:
            return [None] * len(self.series)
        pairs = zip(now, self._first, strict=True)
        return [None if new is None or old is None else new - old for new, old in pairs]


def counts() -> list[SystemCounts]:
    """Switches and bytes of this process, then disk and network bytes of the machine."""
    return [
        SystemCounts(_switches, ("process.switches.voluntary", "process.switches.involuntary"), "1", "process"),
        SystemCounts(_own_bytes, ("process.read", "process.written"), "B", "process"),
        SystemCounts(disk_bytes(), ("disk.read", "disk.written"), "B", "machine"),
        SystemCounts(_network_bytes, ("network.received", "network.sent"), "B", "machine"),
    ]


def disk_bytes(table: Path = _DISKS, block: Path = _BLOCK) -> Callable[[], Readings | None]:
    """Something to ask for bytes read and written by whole disks; one read of one file where the kernel has it."""
    disks = {path.name for path in block.glob("*") if not path.name.startswith(("loop", "ram", "zram"))}
    return partial(_from_table, table, disks) if disks and table.exists() else _disks


def _from_table(table: Path, disks: set[str]) -> Readings | None:
    # A line: major, minor, name, then reads, merged, sectors read, ms, writes, merged, sectors written, …
    rows = [line.split() for line in table.read_text().splitlines()]
    kept = [row for row in rows if len(row) > 9 and row[2] in disks]
    return [_SECTOR * float(sum(int(row[column]) for row in kept)) for column in (5, 9)]


def _disks() -> Readings | None:
    found = psutil.disk_io_counters()
    return None if found is None else [float(found.read_bytes), float(found.write_bytes)]


def _switches() -> Readings | None:
    if os.name != "posix":
        return None
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    return [float(used.ru_nvcsw), float(used.ru_nivcsw)]


def _own_bytes() -> Readings | None:
    if not hasattr(psutil.Process, "io_counters"):
        return None
    found = psutil.Process().io_counters()
    return [float(found.read_bytes), float(found.write_bytes)]


def _network_bytes() -> Readings | None:
    found = psutil.net_io_counters()
    return None if found is None else [float(found.bytes_recv), float(found.bytes_sent)]
