"""What is measured beside the pass itself, and for how long."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assay.analysis.carbon import find_grid, price
from assay.analysis.memory.optimizers import optimizer_named
from assay.document.machine import unknown
from assay.errors import UsageError


@dataclass(frozen=True)
class EnergyOptions:
    """What is measured or modelled about energy."""

    grid: str | None = None
    """The power grid whose carbon intensity applies."""
    pue: float = 1.0
    """Energy of the building over that of its machines."""
    price_kwh: float | None = None
    by_op: bool = True
    """Replay operations to measure the energy of each kind."""
    window_s: float = 2.0
    repeats: int = 2

    def check(self) -> None:
        """Refuse an unknown grid, and a price or a PUE that is out of range."""
        if self.grid is not None:
            find_grid(self.grid)
        price(unknown("nothing was measured yet"), self.price_kwh or 0.0, pue=self.pue)


@dataclass(frozen=True)
class ProfileOptions:
    """What is measured beside the pass itself, and for how long."""

    warmup: int = 2
    passes: int | None = None
    """None: as many as fit into `seconds`, and at least three."""
    seconds: float = 2.0
    optimizer: str = "adamw"
    threads: int | None = None
    thread_counts: Sequence[int] = ()
    sweeps: Sequence[tuple[str, Sequence[int]]] = ()
    memory_limit: int | None = None
    """Bytes: what is predicted to need more is not run."""
    system: bool = False
    """Monitor the machine while passes run, apart from those that are timed."""
    energy: EnergyOptions | None = None
    """Energy of the pass, and of operations where a sensor can measure it."""

    def check(self) -> None:
        """Refuse, before any long work, what could not be answered."""
        least = {"warmup": 0, "passes": 1, "seconds": 0, "threads": 1, "memory_limit": 1}
        for name, lowest in least.items():
            _check_number(name, getattr(self, name), lowest)
        for count in _items("thread_counts", self.thread_counts):
            _check_number("thread_counts", count, 1)
        for sweep in _items("sweeps", self.sweeps):
            if not isinstance(sweep, tuple) or len(sweep) != 2 or not isinstance(sweep[0], str):
                raise UsageError(f"sweeps must be pairs such as ('batch', [1, 2, 4]), got {sweep!r}")
            for size in _items(f"sweep of {sweep[0]}", sweep[1]):
                _check_number(f"sweep of {sweep[0]}", size, 1)
        if self.energy is not None:
            self.energy.check()
        optimizer_named(self.optimizer)


def _check_number(name: str, value: Any, least: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value < math.inf:
        raise UsageError(f"{name} must be a number from {least}, got {value!r}")


def _items(name: str, values: Any) -> Sequence[Any]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        raise UsageError(f"{name} must be a list, got {values!r}")
    return values
