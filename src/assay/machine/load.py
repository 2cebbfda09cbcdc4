"""How much other work there was on the processor while something was measured."""

from __future__ import annotations

import time
from collections.abc import Mapping

BUSY = 0.05
"""Above this share others disturb what several threads or the memory can do."""


class OtherWork:
    """The share of the processor that others took between two looks."""

    def __init__(self) -> None:
        self._own, self._busy, self._all = _looked()

    def share(self) -> float | None:
        """Since it was made; None where no time passed or the system does not tell."""
        own, busy, everything = _looked()
        return share((busy - self._busy) - (own - self._own), everything - self._all)


def share(spent: float, passed: float) -> float | None:
    """The part of the time that passed, within 0 and 1; None where none did."""
    return min(max(spent / passed, 0.0), 1.0) if passed > 0 else None


def busy_and_all(times: Mapping[str, float]) -> tuple[float, float]:
    """The seconds that were busy and all there were, from those that the system counts by name."""
    # The kernel counts guests within user time already.
    everything = sum(seconds for name, seconds in times.items() if not name.startswith("guest"))
    return everything - times.get("idle", 0.0) - times.get("iowait", 0.0), everything


def _looked() -> tuple[float, float, float]:
    """Processor seconds: of this process, all that were busy, and all there were."""
    import psutil

    return time.process_time(), *busy_and_all(psutil.cpu_times()._asdict())
