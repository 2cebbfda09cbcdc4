"""Options of a profile: how long to measure, and what to measure besides the pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.analysis.carbon import find_grid, price
from assay.analysis.memory.optimizers import optimizer_named
from assay.api.arguments import check_number, check_text, check_whole, sequence_of
from assay.document.machine import unknown_figure
from assay.errors import UsageError


@dataclass(frozen=True)
class EnergyOptions:
    """How to measure or model energy."""

    grid: str | None = None
    """The power grid that determines the carbon intensity; if None, no carbon footprint is computed."""
    pue: float = 1.0
    """Power usage effectiveness: energy of the building divided by energy of its machines."""
    price_kwh: float | None = None
    """The price per kilowatt-hour; If None, no price is computed."""
    by_op: bool = True
    """Replay ops to measure the energy of each kind of op."""
    window_s: float = 2.0
    """Seconds to keep the device busy in each repetition."""
    repeats: int = 2
    """Number of repetitions."""
    seconds: float | None = None
    """Seconds for all replays together; None does not limit them. To stay within it, they are repeated less often,
    then their windows shrink, then the kinds of op that take the least time are not replayed."""

    def check(self) -> None:
        """Raise UsageError for an unknown grid, or a price or PUE that is out of range."""
        if self.grid is not None:
            check_text("grid", self.grid, "FR")
            find_grid(self.grid)
        check_number("pue", self.pue, 1)
        check_number("price", self.price_kwh, 0, optional=True)
        check_number("seconds", self.seconds, 0, optional=True)
        price(unknown_figure("not measured yet"), self.price_kwh or 0.0, pue=self.pue)


@dataclass(frozen=True)
class ProfileOptions:
    """How long to measure, and what to measure besides the pass."""

    warmup: int = 2
    """Number of untimed passes to run first."""
    passes: int | None = None
    """Number of timed passes; None adds passes until the times of both halves agree, at most 100."""
    seconds: float = 10.0
    """Seconds after which a measurement stops even if they do not; three passes may take up to twice as long."""
    budget: float | None = 60.0
    """Seconds for everything; measurements for which no time is left are skipped. None: no limit."""
    optimizer: str = "adamw"
    """The optimizer of the training step."""
    threads: int | None = None
    """Number of CPU threads for torch; Default: torch's own setting."""
    thread_counts: Sequence[int] = ()
    """Thread counts to time the pass with."""
    sweeps: Sequence[tuple[str, Sequence[int]]] = ()
    """Input sizes to time the pass at, by axis."""
    memory_limit: int | None = None
    """Bytes: a pass that is predicted to need more is not run."""
    system: bool = False
    """Monitor the machine during additional, untimed passes."""
    energy: EnergyOptions | None = None
    """Measure or model the energy of the pass, and of ops if there is a sensor; if None, neither."""
    memory: bool = True
    """Measure the memory of the pass, in up to five additional passes."""
    outputs: bool = False
    """Compute statistics of outputs in another pass, with images of the outputs of convolutions; also of gradients if
    a training step is measured."""

    def check(self) -> None:
        """Raise UsageError for values that are not valid, before anything is measured."""
        check_whole("warmup", self.warmup, 0)
        for name in ("passes", "threads", "memory_limit"):
            check_whole(name, getattr(self, name), optional=True)
        check_number("seconds", self.seconds, 0)
        check_number("budget", self.budget, 0, optional=True)
        for count in sequence_of("thread_counts", self.thread_counts):
            check_whole("thread_counts", count)
        for sweep in sequence_of("sweeps", self.sweeps):
            if not isinstance(sweep, tuple) or len(sweep) != 2 or not isinstance(sweep[0], str):
                raise UsageError(f"sweeps must be pairs such as ('batch', [1, 2, 4]), got {sweep!r}")
            for size in sequence_of(f"sweep of {sweep[0]}", sweep[1]):
                check_whole(f"sweep of {sweep[0]}", size)
        if self.energy is not None:
            self.energy.check()
        optimizer_named(self.optimizer)


def parse_sweep(text: str) -> tuple[str, list[int]]:
    """The axis and its sizes from text: `parse("batch=1,2,4") == ("batch", [1, 2, 4])`."""
    name, _, sizes = text.partition("=")
    values = [part.strip() for part in sizes.split(",")]
    if not name or not all(value.isdecimal() and int(value) for value in values):
        raise UsageError(f"cannot parse the sweep {text!r}: expected the form batch=1,2,4")
    return name.strip(), list(dict.fromkeys(int(value) for value in values))
