"""Energy since a start time: from counters that wrap around, or from power integrated over time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from assay.machine.sensors.probe import ENERGY, POWER, Probe, SensorError

Clock = Callable[[], float]


class Counter:
    """Joules since creation; handles any number of wraps, if it is read at least once between two of them."""

    def __init__(self, probe: Probe) -> None:
        self.name = probe.name
        self._probe = probe
        self._last = probe.read()
        self._total = 0.0

    def joules(self) -> float:
        """Joules so far; raises `SensorError` if the counter decreased without wrapping."""
        now = self._probe.read()
        step = now - self._last
        if step < 0:
            step += self._wrapped(now)
        self._last = now
        self._total += step
        return self._total

    def _wrapped(self, now: float) -> float:
        around = self._probe.wraps_at
        # A wrap goes from near the top to near the bottom; any other decrease is a reset.
        if around is None or self._last < around / 2 or now > around / 2:
            raise SensorError(f"{self.name} was reset during the measurement: its count is lost")
        return around


class PowerSum:
    """Joules since creation, integrated from a power sensor."""

    def __init__(self, probe: Probe, clock: Clock = time.perf_counter) -> None:
        self.name = probe.name
        self._probe, self._clock = probe, clock
        self._last, self._when = probe.read(), clock()
        self._total = 0.0

    def joules(self) -> float:
        """Joules so far, by the trapezoidal rule."""
        power, now = self._probe.read(), self._clock()
        self._total += (power + self._last) / 2 * (now - self._when)
        self._last, self._when = power, now
        return self._total


class Joules:
    """The sum of several counters; if one fails, reading raises, because a partial sum would be wrong."""

    def __init__(self, probes: Sequence[Probe]) -> None:
        if not probes:
            raise SensorError("no energy sensor")
        kinds: dict[str, type[Counter] | type[PowerSum]] = {ENERGY: Counter, POWER: PowerSum}
        self._counters = [kinds[probe.measures](probe) for probe in probes]
        self.name = " + ".join(probe.name for probe in probes)

    def joules(self) -> float:
        """Joules since creation."""
        return sum(counter.joules() for counter in self._counters)


def additive_probes(probes: Sequence[Probe], prefix: str = "") -> list[Probe]:
    """The probes whose names start with `prefix` and whose energies add up without overlapping.

    A board without an energy counter is represented by its power sensor.
    """
    named = [probe for probe in probes if probe.name.startswith(prefix)]
    energies = [probe for probe in named if probe.adds]
    counted = {probe.name.rpartition(":")[0] for probe in energies}
    powers = [
        probe
        for probe in named
        if probe.measures == POWER and probe.scope == "board" and probe.name.rpartition(":")[0] not in counted
    ]
    return energies + powers
