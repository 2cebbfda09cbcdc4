"""Energy used on this machine: a meter for a time window, and a replay that repeats short work until measurable."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from assay.display import Displayed
from assay.document.machine import NOT_MEASURED, Replay, Sensor, Thermal, measured_figure, unknown_figure
from assay.document.provenance import Figure
from assay.machine.hardware import CUDA
from assay.machine.samples import median_figure
from assay.machine.sensors import hwmon, nvml
from assay.machine.sensors.cadence import watch
from assay.machine.sensors.counter import Joules, additive_probes
from assay.machine.sensors.finding import find
from assay.machine.sensors.probe import Probe, SensorError
from assay.machine.thermal import NO_THERMOMETER, ThermalLog, Thermometer, of_board, of_processor
from assay.machine.ticks import TickInterval, TickWatcher, between

PERIODS = 20
"""A window spans at least this many counter periods, so that one period is at most 5 % of it."""
WINDOW_S = 2.0
REPEATS = 3
_BATCH_S = 0.05
"""Approximate duration of a batch of runs between two synchronisations: long compared with the wait itself, short
compared with a counter period."""
_SETUP_S = 0.2
"""Approximate seconds to find the number of runs per batch."""
_COVERED = 0.5
"""The smallest share of a window that must lie between two ticks."""

_PROCESSOR = ("rapl", "hwmon:", "powermetrics")
"""Name prefixes of sensors that cover the CPU, best first."""

Workload = Callable[[], object]


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class CounterGroup:
    """Energy counters that together cover one device, with their tick period, idle power and thermometer."""

    probes: tuple[Probe, ...]
    period_s: float
    idle_w: Figure = NOT_MEASURED
    thermometer: Thermometer = NO_THERMOMETER

    def joules(self) -> Joules:
        """A joule counter that starts at zero now."""
        return Joules(self.probes)

    @property
    def name(self) -> str:
        """The names of all probes, joined by " + "."""
        return " + ".join(probe.name for probe in self.probes)


def energy_counters(prefix: str = "", rows: Sequence[Sensor] | None = None) -> CounterGroup | str:
    """The usable energy counters whose names start with `prefix`; if there are none, the reasons (possibly empty).

    `rows` are sensors characterised earlier; without them, the sensors are watched now for about a second.
    """
    sensors = find()
    probes = additive_probes(sensors.probes, prefix)
    by_name = {row.name: row for row in (watch(probes) if rows is None else rows)}
    usable = [probe for probe in probes if probe.name in by_name and by_name[probe.name].usable]
    if not usable:
        # A reason found now replaces that of the same sensor characterised earlier.
        rows_now = (*by_name.values(), *sensors.unusable)
        reasons = {row.name: row.why for row in rows_now if row.why and row.name.startswith(prefix)}
        return "; ".join(f"{name}: {why}" for name, why in reasons.items())
    periods = [by_name[probe.name].period.value for probe in usable]
    idles = [by_name[probe.name].idle_w for probe in usable]
    return CounterGroup(tuple(usable), max((each for each in periods if each), default=0.1), _sum(idles))


def counters_of_device(device: str, rows: Sequence[Sensor] | None = None, uuid: str = "") -> CounterGroup | str:
    """The counters of `device` (for `cuda`: of the board with `uuid`, else of the first), or why there are none."""
    if device == CUDA:
        visible = nvml.boards()
        chosen = [board for board in visible.boards if uuid and uuid in board.uuid] or visible.boards
        if not chosen:
            return visible.why
        counters = energy_counters(f"nvml:{chosen[0].index}:", rows)
        return counters if isinstance(counters, str) else replace(counters, thermometer=of_board(chosen[0]))
    reasons = []
    for prefix in _PROCESSOR:
        counters = energy_counters(prefix, rows)
        if isinstance(counters, CounterGroup):
            return replace(counters, thermometer=of_processor(hwmon.find().probes))
        reasons.append(counters)
    return "; ".join(reason for reason in reasons if reason) or "no energy sensor on this machine"


class EnergyMeter(Displayed):
    """Measures the energy of a `with` block: `with EnergyMeter(counters) as meter: …`, then read `meter.energy`."""

    def __init__(self, sensors: CounterGroup, clock: Callable[[], float] = time.perf_counter) -> None:
        self._sensors, self._clock = sensors, clock
        self.energy: Figure = NOT_MEASURED
        self.power_w: Figure = NOT_MEASURED
        self.thermal = Thermal()
        self._log = ThermalLog(sensors.thermometer)
        self._watcher: TickWatcher | None = None
        self._start_s = 0.0

    def __enter__(self) -> EnergyMeter:
        self.energy = self.power_w = NOT_MEASURED
        self.thermal, self._log = Thermal(), ThermalLog(self._sensors.thermometer)
        try:
            joules = self._sensors.joules()
            self._watcher = TickWatcher(joules, self._sensors.period_s, self._clock, self._log.sample)
        except SensorError as error:
            self._watcher = None
            self.energy = self.power_w = unknown_figure(str(error))
        else:
            self._watcher.__enter__()
        self._start_s = self._clock()
        return self

    def __exit__(self, *raised: object) -> None:
        end_s = self._clock()
        if self._watcher is None:
            return
        self._watcher.__exit__(*raised)
        span = between(self._watcher.ticks, self._start_s, end_s)
        seconds = end_s - self._start_s
        if self._watcher.why:
            self.energy = self.power_w = unknown_figure(self._watcher.why)
            return
        self.thermal = self._log.thermal()
        if span is None or span.seconds < _COVERED * seconds:
            why = f"{seconds:.2g} s is too short for a counter that updates every {self._sensors.period_s:.2g} s"
            self.energy = self.power_w = unknown_figure(why)
        else:
            by = f"{self._sensors.name} between ticks"
            self.power_w = measured_figure(span.watts, by)
            self.energy = measured_figure(span.watts * seconds, by)


def replay(
    run: Workload,
    sensors: CounterGroup,
    *,
    synchronize: Callable[[], object] = _nothing,
    window_s: float = WINDOW_S,
    repeats: int = REPEATS,
) -> Replay:
    """The energy of one `run`, measured by repeating it until the counter's resolution no longer matters.

    `synchronize` waits for the work that `run` launched. The device is busy from before the first tick to the last.
    """
    window = _window_s(window_s, sensors.period_s)
    batch = _batch(run, synchronize)
    log = ThermalLog(sensors.thermometer)
    spans: list[tuple[TickInterval, float]] = []
    for _ in range(repeats):
        try:
            spans.append(_window(run, synchronize, sensors, window, batch, log))
        except SensorError as error:
            return Replay(unknown_figure(str(error)), period_s=sensors.period_s)
    return _replayed(spans, sensors, log.thermal())


def replay_s(window_s: float, repeats: int, period_s: float) -> float:
    """Approximate seconds that `replay` takes for a short run."""
    return _SETUP_S + repeats * (_window_s(window_s, period_s) + 2 * period_s)


def _window_s(window_s: float, period_s: float) -> float:
    """Seconds of a window: as requested, but at least `PERIODS` periods of the counter."""
    return max(window_s, PERIODS * period_s)


def idle(sensors: CounterGroup, seconds: float = 1.0) -> Figure:
    """The power while this process is idle, measured for `seconds` or ten counter periods."""
    with TickWatcher(sensors.joules(), sensors.period_s) as watcher:
        time.sleep(max(seconds, 10 * sensors.period_s))
    if watcher.why:
        return unknown_figure(watcher.why)
    steps = [
        (after[1] - before[1]) / (after[0] - before[0])
        for before, after in pairwise(watcher.ticks)
        if after[0] > before[0]
    ]
    return (
        median_figure(steps, f"{sensors.name} between ticks")
        if steps
        else unknown_figure(f"{sensors.name} did not tick")
    )


def _window(
    run: Workload,
    synchronize: Callable[[], object],
    sensors: CounterGroup,
    window: float,
    batch: int,
    log: ThermalLog,
) -> tuple[TickInterval, float]:
    """One interval between ticks, and the number of runs in it."""
    marks = [(time.perf_counter(), 0)]
    # Up to one period is lost at either end, before the first tick and after the last: run two periods longer.
    end_s = marks[0][0] + window + 2 * sensors.period_s
    with TickWatcher(sensors.joules(), sensors.period_s, time.perf_counter, log.sample) as watcher:
        while marks[-1][0] < end_s and not watcher.why:
            for _ in range(batch):
                run()
            synchronize()
            marks.append((time.perf_counter(), marks[-1][1] + batch))
    if watcher.why:
        raise SensorError(watcher.why)
    span = between(watcher.ticks, marks[0][0], marks[-1][0])
    if span is None:
        raise SensorError(f"{sensors.name} did not tick twice in {marks[-1][0] - marks[0][0]:.2g} s")
    return span, runs_at(marks, span.end_s) - runs_at(marks, span.start_s)


def runs_at(marks: Sequence[tuple[float, int]], when: float) -> float:
    """The number of runs completed at time `when`, interpolated between marks."""
    for (before_s, before), (after_s, after) in pairwise(marks):
        if when <= after_s:
            return before + (after - before) * (when - before_s) / (after_s - before_s)
    return float(marks[-1][1])


def _batch(run: Workload, synchronize: Callable[[], object]) -> int:
    """The number of runs per batch; the first run is not counted, because it may include one-off setup."""
    run()
    synchronize()
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            run()
        synchronize()
        took = time.perf_counter() - start
        if took >= _BATCH_S / 2:
            return max(1, round(count * _BATCH_S / took))
        count *= 2


def _replayed(spans: Sequence[tuple[TickInterval, float]], sensors: CounterGroup, thermal: Thermal) -> Replay:
    by = f"{sensors.name} between ticks, replayed"
    idle_w = sensors.idle_w.value
    gross = [span.joules / runs for span, runs in spans]
    above = [(span.joules - idle_w * span.seconds) / runs for span, runs in spans] if idle_w is not None else []
    return Replay(
        energy_j=median_figure(gross, by),
        above_idle_j=median_figure(above, f"{by}, less idle power")
        if above
        else unknown_figure("the idle power is unknown"),
        time_s=median_figure([span.seconds / runs for span, runs in spans], "clock, replayed"),
        power_w=median_figure([span.watts for span, _ in spans], by),
        calls=round(sum(runs for _, runs in spans)),
        window_s=min(span.seconds for span, _ in spans),
        period_s=sensors.period_s,
        thermal=thermal,
    )


def _sum(figures: Sequence[Figure]) -> Figure:
    """The sum of `figures`; unknown if any of them is."""
    if len(figures) == 1:
        return figures[0]
    values = [figure.value for figure in figures if figure.value is not None]
    if len(values) < len(figures) or not values:
        return unknown_figure("the idle power of one sensor is unknown")
    return measured_figure(sum(values), f"{len(values)} sensors together")
