"""Characterises sensors by polling them for a while: update period, cost of a read, and idle power."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from msgspec.structs import replace

from assay.document.machine import Sensor, measured_figure, unknown_figure
from assay.document.provenance import Figure
from assay.machine.samples import median_figure, spread
from assay.machine.sensors.probe import ENERGY, POWER, Probe, SensorError

WATCH_S = 1.3
"""Long enough for a dozen ticks of a counter with a period of 100 ms."""
_PAUSE_S = 0.001
_SLOWEST_S = 1.0
"""A sensor with slower reads is unusable, and would delay reading the rest."""

Clock = Callable[[], float]
Sleep = Callable[[float], None]


@dataclass
class _Watched:
    """The reads of one probe."""

    reads: list[tuple[float, float]] = field(default_factory=list)
    """Time and value."""
    costs: list[float] = field(default_factory=list)
    why: str = ""

    @property
    def ticks(self) -> list[tuple[float, float]]:
        """The reads whose value differs from the previous one."""
        return [after for before, after in pairwise(self.reads) if after[1] != before[1]]


def watch(
    probes: Sequence[Probe],
    seconds: float = WATCH_S,
    *,
    clock: Clock = time.perf_counter,
    sleep: Sleep = time.sleep,
) -> list[Sensor]:
    """One row per probe, with its update period, the cost of a read and the idle power."""
    watched = {probe.name: _Watched() for probe in probes}
    end = clock() + seconds
    while probes and clock() < end:
        for probe in probes:
            _read(probe, watched[probe.name], clock)
        sleep(_PAUSE_S)
    return [_row(probe, watched[probe.name], seconds) for probe in probes]


def _read(probe: Probe, seen: _Watched, clock: Clock) -> None:
    if seen.why:
        return
    before = clock()
    try:
        value = probe.read()
    except SensorError as error:
        seen.why = f"reading failed: {error}"
        return
    after = clock()
    seen.reads.append((after, value))
    seen.costs.append(after - before)
    if after - before > _SLOWEST_S:
        seen.why = f"a read took {after - before:.1f} s"


def _row(probe: Probe, seen: _Watched, seconds: float) -> Sensor:
    if seen.why or not seen.reads:
        return probe.row(seen.why or "never read")
    ticks = seen.ticks
    if probe.measures == ENERGY and len(ticks) < 2:
        return probe.row(f"counter did not change in {seconds:.1f} s")
    values = [value for _, value in seen.reads]
    if probe.measures == ENERGY and probe.wraps_at is None and any(b < a for a, b in pairwise(values)):
        return probe.row("counter decreased while it was watched")
    return replace(
        probe.row(),
        value=None if probe.measures == ENERGY else values[-1],
        period=_period(ticks, seconds),
        read_s=sorted(seen.costs)[len(seen.costs) // 2],
        idle_w=_idle(probe, seen),
    )


def _period(ticks: Sequence[tuple[float, float]], seconds: float) -> Figure:
    gaps = [after[0] - before[0] for before, after in pairwise(ticks)]
    if not gaps:
        return unknown_figure(f"fewer than two new values in {seconds:.1f} s")
    return median_figure(gaps, "time between new values")


def _idle(probe: Probe, seen: _Watched) -> Figure:
    if probe.measures == POWER:
        return median_figure([value for _, value in seen.reads], probe.name)
    if probe.measures != ENERGY:
        return unknown_figure("not a power sensor")
    steps = [
        (after[1] - before[1]) / (after[0] - before[0])
        for before, after in pairwise(seen.ticks)
        if after[1] > before[1] and after[0] > before[0]
    ]
    first, last = seen.ticks[0], seen.ticks[-1]
    if not steps or last[1] <= first[1]:
        return unknown_figure("the counter wrapped while it was watched")
    power = (last[1] - first[1]) / (last[0] - first[0])
    return measured_figure(power, f"{probe.name} between ticks", repeats=len(steps), spread=spread(steps))
