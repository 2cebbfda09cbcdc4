"""The processor: utilisation of each core, and the mean clock frequency."""

from __future__ import annotations

from pathlib import Path

import psutil

from assay.document.machine import Series
from assay.machine.gauges.gauge import Gauge, Readings
from assay.machine.load import busy_and_all, share

_FREQUENCIES = Path("/sys/devices/system/cpu")


class Utilisation(Gauge):
    """The busy share of all cores together and of each core, since the last read."""

    def __init__(self) -> None:
        self._last = _times()
        names = ["cpu.utilisation", *(f"cpu.{core}.utilisation" for core in range(len(self._last)))]
        self.series = [Series(name, "share", "machine") for name in names]

    def read(self) -> Readings:
        """The whole machine first, then each core; None if no time was counted since the last read."""
        now = _times()
        spent = [(busy - was[0], passed - was[1]) for (busy, passed), was in zip(now, self._last, strict=False)]
        self._last = now
        spent += [(0.0, 0.0)] * (len(self.series) - 1 - len(spent))  # a core may be taken offline
        every = (sum(busy for busy, _ in spent), sum(passed for _, passed in spent))
        return [share(busy, passed) for busy, passed in (every, *spent[: len(self.series) - 1])]


class Frequency(Gauge):
    """The mean clock of all cores as set by the kernel (cpufreq); the figures of a virtual machine are not used."""

    def __init__(self, root: Path = _FREQUENCIES) -> None:
        self._paths = sorted(root.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))
        self.series = [Series("cpu.frequency", "MHz", "machine")]
        self.problems = () if self._paths else ("cpu.frequency: not reported by the kernel",)

    def read(self) -> Readings:
        """The mean over the cores that can be read, in MHz."""
        clocks = [clock for clock in map(_kilohertz, self._paths) if clock is not None]
        return [sum(clocks) / len(clocks) / 1000 if clocks else None]


def _times() -> list[tuple[float, float]]:
    """Busy seconds and total seconds of each core."""
    return [busy_and_all(times._asdict()) for times in psutil.cpu_times(percpu=True)]


def _kilohertz(path: Path) -> float | None:
    try:
        return float(path.read_text())
    except (OSError, ValueError):
        return None
