"""The share of the processor that other processes used during a measurement."""

from __future__ import annotations

import time
from collections.abc import Mapping

BUSY = 0.05
"""Above this share, other processes distort multi-threaded and memory measurements."""


class OtherLoad:
    """Measures the share of the processor that other processes used since it was created."""

    def __init__(self) -> None:
        self._own, self._busy, self._all = _processor_seconds()

    def share(self) -> float | None:
        """The share since creation, from 0 to 1; None if no time passed."""
        own, busy, everything = _processor_seconds()
        return share((busy - self._busy) - (own - self._own), everything - self._all)


def share(spent: float, passed: float) -> float | None:
    """`spent` as a share of `passed`, clamped to 0 to 1; None if no time passed."""
    return min(max(spent / passed, 0.0), 1.0) if passed > 0 else None


def busy_and_all(times: Mapping[str, float]) -> tuple[float, float]:
    """Busy seconds and total seconds, from the seconds per state that the system reports."""
    # The kernel already includes guest time in user time.
    everything = sum(seconds for name, seconds in times.items() if not name.startswith("guest"))
    return everything - times.get("idle", 0.0) - times.get("iowait", 0.0), everything


def _processor_seconds() -> tuple[float, float, float]:
    """Processor seconds of this process, busy seconds of all processes, and total seconds."""
    import psutil

    return time.process_time(), *busy_and_all(psutil.cpu_times()._asdict())
