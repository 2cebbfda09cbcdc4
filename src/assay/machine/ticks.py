"""Records the ticks of an energy counter while other code runs.

Counters update in steps, every 100 ms on current boards. A value read between two steps can be one step old, so
energy is measured from tick to tick and never from the edges of a window.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from assay.machine.sensors.probe import SensorError

_FAST_S = 0.01
"""A counter with a shorter period than this is polled slowly: every read is effectively a tick."""
_FAST_POLL_S = 0.02
_ASLEEP = 0.8
"""The share of a period after a tick in which no other tick is expected."""
_PROMPT_S = 0.005
"""A read that took longer than this, and longer than a quarter of a period, was interrupted: the time of its value is
unknown, so it is discarded."""
_PATIENCE_S = 5.0

Tick = tuple[float, float]
"""The time at which a new value was read, and the joules so far."""


class Energy(Protocol):
    """A counter of joules; reading it may raise `SensorError`."""

    name: str

    def joules(self) -> float:
        """Joules since it was created."""


@dataclass(frozen=True)
class TickInterval:
    """The energy between two ticks."""

    start_s: float
    end_s: float
    joules: float

    @property
    def seconds(self) -> float:
        """The length of the interval."""
        return self.end_s - self.start_s

    @property
    def watts(self) -> float:
        """The average power."""
        return self.joules / self.seconds


def _nothing() -> None:
    return None


class TickWatcher:
    """Records every tick during a `with` block, on a thread that stops when the block ends.

    `sample` is called before the block, after every tick and after the block; it must not raise.
    """

    def __init__(
        self,
        energy: Energy,
        period_s: float,
        clock: Callable[[], float] = time.perf_counter,
        sample: Callable[[], None] = _nothing,
    ) -> None:
        self.ticks: list[Tick] = []
        self.why = ""
        self._energy, self._period_s, self._clock, self._sample = energy, period_s, clock, sample
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="assay-energy", daemon=True)

    def __enter__(self) -> TickWatcher:
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._done.set()
        self._thread.join(_PATIENCE_S)
        if self._thread.is_alive():
            self.why = f"{self._energy.name} did not respond within {_PATIENCE_S:.0f} s"

    def _watch(self) -> None:
        fast = self._period_s < _FAST_S
        prompt_s = max(self._period_s / 4, _PROMPT_S)
        last: float | None = None
        try:
            while not self._done.is_set():
                before = self._clock()
                value = self._energy.joules()
                after = self._clock()
                ticked = last is not None and value != last
                if ticked and after - before <= prompt_s:
                    self.ticks.append(((before + after) / 2, value))
                last = value
                if ticked:
                    self._sample()
                self._done.wait(_FAST_POLL_S if fast else self._period_s * (_ASLEEP if ticked else 0.01))
            # On this thread, because a sensor that hangs must not keep the block from ending.
            self._sample()
        except SensorError as error:
            self.why = str(error)


def between(ticks: Sequence[Tick], start_s: float, end_s: float) -> TickInterval | None:
    """The interval from the first to the last tick inside a window; None if there are fewer than two ticks."""
    times = [when for when, _ in ticks]
    inside = ticks[bisect_left(times, start_s) : bisect_right(times, end_s)]
    if len(inside) < 2:
        return None
    (first_s, first), (last_s, last) = inside[0], inside[-1]
    return TickInterval(first_s, last_s, last - first)
