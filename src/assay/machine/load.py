"""How much other work there was on the processor while something was measured."""

from __future__ import annotations

import time

BUSY = 0.05
"""Above this share others disturb what several threads or the memory can do."""


class OtherWork:
    """The share of the processor that others took between two looks."""

    def __init__(self) -> None:
        self._own, self._busy, self._all = _looked()

    def share(self) -> float | None:
        """Since it was made; None where no time passed or the system does not tell."""
        own, busy, everything = _looked()
        passed = everything - self._all
        if passed <= 0:
            return None
        others = (busy - self._busy) - (own - self._own)
        return min(max(others / passed, 0.0), 1.0)


def _looked() -> tuple[float, float, float]:
    """Processor seconds: of this process, all that were busy, and all there were."""
    import psutil

    times = psutil.cpu_times()._asdict()
    # The kernel counts guests within user time already.
    everything = sum(value for name, value in times.items() if not name.startswith("guest"))
    idle = times.get("idle", 0.0) + times.get("iowait", 0.0)
    return time.process_time(), everything - idle, everything
