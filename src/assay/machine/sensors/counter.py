"""Energy since a beginning: counters that wrap around, and powers that are added up over time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from assay.machine.sensors.probe import ENERGY, POWER, Probe, SensorError

Clock = Callable[[], float]


class Counter:
    """Joules since it was made, across any number of wraps as long as it is read once between two."""

    def __init__(self, probe: Probe) -> None:
        self.name = probe.name
        self._probe = probe
        self._last = probe.read()
        self._total = 0.0

    def joules(self) -> float:
        """The sum so far; a counter that went back without wrapping is an error."""
        now = self._probe.read()
        step = now - self._last
        if step < 0:
            step += self._wrapped(now)
        self._last = now
        self._total += step
        return self._total

    def _wrapped(self, now: float) -> float:
        around = self._probe.wraps_at
        # A wrap goes from near the top to near the bottom; anything else is a counter that was set back.
        if around is None or self._last < around / 2 or now > around / 2:
            raise SensorError(f"{self.name} went back: it was reset, so what was counted is lost")
        return around


class PowerSum:
    """Joules since it was made, from a power that is read again and again."""

    def __init__(self, probe: Probe, clock: Clock = time.perf_counter) -> None:
        self.name = probe.name
        self._probe, self._clock = probe, clock
        self._last, self._when = probe.read(), clock()
        self._total = 0.0

    def joules(self) -> float:
        """The sum so far, by the trapezoidal rule."""
        power, now = self._probe.read(), self._clock()
        self._total += (power + self._last) / 2 * (now - self._when)
        self._last, self._when = power, now
        return self._total


class Joules:
    """What several counters say together; one that fails makes the whole fail, for a part is not the sum."""

    def __init__(self, probes: Sequence[Probe]) -> None:
        if not probes:
            raise SensorError("there is no sensor for energy")
        kinds: dict[str, type[Counter] | type[PowerSum]] = {ENERGY: Counter, POWER: PowerSum}
        self._counters = [kinds[probe.measures](probe) for probe in probes]
        self.name = " + ".join(probe.name for probe in probes)

    def joules(self) -> float:
        """Since it was made."""
        return sum(counter.joules() for counter in self._counters)


def whole(probes: Sequence[Probe], prefix: str = "") -> list[Probe]:
    """The probes whose energies add up without overlapping, of those with names that begin with `prefix`.

    A board without an energy counter counts by its power.
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
