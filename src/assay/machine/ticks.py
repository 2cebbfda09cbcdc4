"""Watching an energy counter tick while something else runs.

Counters move in steps, every 100 ms on current boards. What is read between two steps is up to a step old, so energy
is taken from one step to another and never from the edges of a window.
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
"""A counter that moves more often than this is read at leisure: every read is as good as a tick."""
_LEISURE_S = 0.02
_ASLEEP = 0.8
"""The part of a period after a tick in which none can come."""
_PROMPT_S = 0.005
"""A read that took longer, and than a quarter of a period, was interrupted: nobody knows when its value was true."""
_PATIENCE_S = 5.0

Tick = tuple[float, float]
"""When a new value was seen, and the joules so far."""


class Energy(Protocol):
    """Something that counts joules; reading may raise `SensorError`."""

    name: str

    def joules(self) -> float:
        """Since it was made."""


@dataclass(frozen=True)
class TickInterval:
    """From one tick to another."""

    start_s: float
    end_s: float
    joules: float

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.end_s - self.start_s

    @property
    def watts(self) -> float:
        """The average power in it."""
        return self.joules / self.seconds


class TickWatcher:
    """A thread that notes every tick between entering and leaving; it always ends."""

    def __init__(self, energy: Energy, period_s: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self.ticks: list[Tick] = []
        self.why = ""
        self._energy, self._period_s, self._clock = energy, period_s, clock
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="assay-energy", daemon=True)

    def __enter__(self) -> TickWatcher:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._done.set()
        self._thread.join(_PATIENCE_S)
        if self._thread.is_alive():
            self.why = f"{self._energy.name} did not answer for {_PATIENCE_S:.0f} s"

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
                self._done.wait(_LEISURE_S if fast else self._period_s * (_ASLEEP if ticked else 0.01))
        except SensorError as error:
            self.why = str(error)


def between(ticks: Sequence[Tick], start_s: float, end_s: float) -> TickInterval | None:
    """From the first tick in a window to the last; None where there are not two."""
    times = [when for when, _ in ticks]
    inside = ticks[bisect_left(times, start_s) : bisect_right(times, end_s)]
    if len(inside) < 2:
        return None
    (first_s, first), (last_s, last) = inside[0], inside[-1]
    return TickInterval(first_s, last_s, last - first)
