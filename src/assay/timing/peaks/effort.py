"""How long to measure: a full measurement, or a quick one with a time limit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """How much time the measurements may take, and which are left out."""

    share: float = 1.0
    """The share of the time budget of each measurement."""
    limit_s: float = math.inf
    """Seconds after which further precisions and kernels are left out."""
    details: bool = True
    """Whether to measure caches and thread scaling, which no other command needs."""

    def timer(self, now: Callable[[], float] = time.perf_counter) -> Callable[[], bool]:
        """A function that returns whether the time limit, counted from this call, has passed."""
        end_s = now() + self.limit_s
        return lambda: now() >= end_s


FULL = Effort()
QUICK = Effort(share=0.5, limit_s=5.0, details=False)
