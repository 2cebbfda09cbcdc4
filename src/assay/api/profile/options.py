"""What is measured beside the pass itself, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.analysis.carbon import find_grid, price
from assay.analysis.memory.optimizers import optimizer_named
from assay.document.machine import unknown


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

    def check(self, *, backward: bool) -> None:
        """Refuse, before any long work, what could not be answered."""
        if self.energy is not None:
            self.energy.check()
        if backward:
            optimizer_named(self.optimizer)
