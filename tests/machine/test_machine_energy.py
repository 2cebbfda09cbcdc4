"""Energy from counters that tick, wrap, reset and fail."""

from __future__ import annotations

import math
import threading

import pytest
from clocks import HANG_S, VirtualTime
from hypothesis import given
from hypothesis import strategies as st
from machine_fakes import Clock

from assay.document.machine import Sensor, measured_figure
from assay.machine import energy
from assay.machine.energy import CounterGroup, EnergyMeter, counters_of_device, energy_counters, idle, replay, runs_at
from assay.machine.sensors import cadence
from assay.machine.sensors.counter import Counter, Joules, PowerSum
from assay.machine.sensors.probe import ENERGY, POWER, Probe, ProbedSensors, SensorError
from assay.machine.ticks import TickWatcher, between

WATTS, PERIOD = 80.0, 0.005


def from_values(*values: float, wraps_at: float | None = None) -> Probe:
    """A counter that returns these values in order."""
    left = iter(values)
    return Probe("fake:energy", ENERGY, "package", lambda: next(left), wraps_at=wraps_at, adds=True)


def ticking(virtual: VirtualTime, period: float = PERIOD, watts: float = WATTS) -> Probe:
    """A counter that updates once per period of the real clock."""

    def read() -> float:
        return math.floor(virtual.now / period) * period * watts

    return Probe("fake:energy", ENERGY, "package", read, adds=True)


def failing_after(reads: int) -> Probe:
    left = iter(range(reads))

    def read() -> float:
        value = next(left, None)
        if value is None:
            raise SensorError("it is gone")
        return float(value)

    return Probe("fake:energy", ENERGY, "package", read, adds=True)


@given(st.lists(st.floats(0.01, 40.0), min_size=1, max_size=30), st.floats(100.0, 1000.0))
def test_wraps_lose_nothing(steps, around):
    raw, total = [0.9 * around], 0.9 * around
    for step in steps:
        total += step
        raw.append(total % around)
    counter = Counter(from_values(*raw, wraps_at=around))
    for _ in steps:
        found = counter.joules()
    assert found == pytest.approx(sum(steps), rel=1e-6)


@pytest.mark.parametrize("wraps_at", [None, 1000.0])
def test_a_reset_is_not_a_wrap(wraps_at):
    counter = Counter(from_values(300.0, 301.0, 2.0, wraps_at=wraps_at))
    assert counter.joules() == 1.0
    with pytest.raises(SensorError, match="reset"):
        counter.joules()


def test_power_adds_up_over_time():
    clock = Clock(step=0.0)
    powers = iter([100.0, 100.0, 300.0])
    total = PowerSum(Probe("fake:power", POWER, "board", lambda: next(powers)), clock)
    clock.sleep(2.0)
    assert total.joules() == pytest.approx(200.0)
    clock.sleep(1.0)
    assert total.joules() == pytest.approx(400.0)


def test_counters_add_up_and_one_that_fails_fails_all():
    both = Joules([from_values(0.0, 1.0, 5.0), from_values(10.0, 12.0, 13.0)])
    assert (both.joules(), both.joules()) == (3.0, 8.0)
    broken = Joules([from_values(0.0, 1.0), failing_after(1)])
    with pytest.raises(SensorError, match="gone"):
        broken.joules()
    with pytest.raises(SensorError, match="no energy sensor"):
        Joules([])


def test_an_interval_spans_from_tick_to_tick():
    ticks = [(0.1 * n, 30.0 * n) for n in range(1, 30)]
    span = between(ticks, 0.25, 2.05)
    assert (span.start_s, span.end_s) == (pytest.approx(0.3), pytest.approx(2.0))
    assert span.watts == pytest.approx(300.0)
    assert between(ticks, 0.21, 0.39) is None
    assert between([], 0.0, 1.0) is None


def test_tick_alignment_beats_reading_at_the_edges():
    """300 W for windows at any phase of a 100 ms counter: aligned power is exact, the naive difference is not."""
    worst = 0.0
    for phase in range(10):
        start = 10 + phase / 100
        end = start + 1.013
        naive = (math.floor(end / 0.1) - math.floor(start / 0.1)) * 0.1 * 300.0 / (end - start)
        ticks = [(n * 0.1, n * 30.0) for n in range(90, 130)]
        assert between(ticks, start, end).watts == pytest.approx(300.0)
        worst = max(worst, abs(naive / 300.0 - 1))
    assert worst > 0.05


def test_an_interrupted_read_is_not_a_tick():
    clock, reads = Clock(step=0.0), []

    class Interrupted:
        name = "fake"

        def joules(self) -> float:
            reads.append(1)
            clock.sleep(0.001 if len(reads) != 3 else 0.5)
            if len(reads) == 6:
                raise SensorError("enough")
            return float(len(reads))

    with TickWatcher(Interrupted(), 0.0, clock) as watcher:
        watcher._thread.join(HANG_S)
    assert [value for _, value in watcher.ticks] == [2.0, 4.0, 5.0]
    assert watcher.ticks[0][0] == pytest.approx(100.0015)


def test_runs_are_interpolated_between_marks():
    marks = [(0.0, 0), (1.0, 10), (3.0, 20)]
    assert [runs_at(marks, when) for when in (0.0, 0.5, 1.0, 2.0, 3.0, 9.0)] == [0, 5, 10, 15, 20, 20]


def test_a_replay_finds_the_energy_of_one_run(virtual):
    sensors = CounterGroup((ticking(virtual),), PERIOD, measured_figure(30.0, "fake"))
    found = replay(lambda: virtual.sleep(0.002), sensors, window_s=0.3, repeats=2)
    assert found.time_s.value == pytest.approx(0.002)
    assert found.power_w.value == pytest.approx(WATTS, rel=0.02)
    assert found.energy_j.value == pytest.approx(WATTS * 0.002, rel=0.02)
    assert found.above_idle_j.value == pytest.approx(50.0 * 0.002, rel=0.03)
    assert found.energy_j.how.repeats == 2
    assert found.energy_j.how.spread is not None
    assert 0.3 <= found.window_s <= 0.3 + 2 * PERIOD + 0.05
    assert found.calls == pytest.approx(2 * found.window_s / 0.002, rel=0.1)


def test_the_window_is_long_beside_the_period(virtual):
    sensors = CounterGroup((ticking(virtual, 0.02),), 0.02)
    found = replay(lambda: virtual.sleep(0.004), sensors, window_s=0.01, repeats=1)
    assert 0.02 / found.window_s <= 0.05  # one tick more or less changes the result by at most 5 %
    assert found.energy_j.value == pytest.approx(WATTS * 0.004, rel=0.002)
    assert found.above_idle_j.value is None


@pytest.mark.parametrize("reads", [1, 3])
def test_a_sensor_that_fails_in_a_replay_gives_no_energy(virtual, reads):
    sensors = CounterGroup((failing_after(reads),), PERIOD)
    found = replay(lambda: virtual.sleep(0.001), sensors, window_s=0.05, repeats=2)
    assert found.energy_j.value is None
    assert found.energy_j.how.why == "it is gone"


def test_a_counter_that_never_moves_gives_no_energy(virtual):
    still = Probe("fake:energy", ENERGY, "package", lambda: 5.0)
    found = replay(lambda: virtual.sleep(0.001), CounterGroup((still,), PERIOD), window_s=0.05, repeats=1)
    assert found.energy_j.value is None
    assert "did not tick" in found.energy_j.how.why


def test_a_meter_measures_a_window(virtual):
    with EnergyMeter(CounterGroup((ticking(virtual),), PERIOD), virtual.perf_counter) as meter:
        virtual.sleep(0.4)
    assert meter.power_w.value == pytest.approx(WATTS, rel=0.02)
    assert meter.energy.value == pytest.approx(WATTS * 0.4, rel=0.02)


def test_a_window_shorter_than_a_tick_is_unknown(virtual):
    with EnergyMeter(CounterGroup((ticking(virtual, 60.0),), 60.0), virtual.perf_counter) as meter:
        virtual.sleep(0.01)
    assert meter.energy.value is None
    assert "too short" in meter.energy.how.why


@pytest.mark.parametrize("reads", [0, 2])
def test_a_meter_without_an_answer_is_unknown(virtual, reads):
    with EnergyMeter(CounterGroup((failing_after(reads),), PERIOD), virtual.perf_counter) as meter:
        virtual.sleep(0.05)
    assert meter.energy.value is None


def test_the_thread_ends_when_the_measured_code_raises():
    steady = Probe("fake:energy", ENERGY, "package", lambda: 5.0, adds=True)
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError), EnergyMeter(CounterGroup((steady,), PERIOD)):
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), TickWatcher(Joules([steady]), PERIOD):
        raise ZeroDivisionError
    assert threading.active_count() == before


def test_idle_power(virtual):
    assert idle(CounterGroup((ticking(virtual, 0.02),), 0.02), 0.5).value == pytest.approx(WATTS, rel=0.02)
    assert idle(CounterGroup((failing_after(2),), PERIOD), 0.05).value is None


def test_sensors_are_chosen_or_their_absence_explained(monkeypatch, virtual):
    monkeypatch.setattr(energy, "find", lambda: ProbedSensors([ticking(virtual)]))
    monkeypatch.setattr(
        energy, "watch", lambda probes: cadence.watch(probes, clock=virtual.perf_counter, sleep=virtual.sleep)
    )
    chosen = energy_counters("fake:")
    assert chosen.idle_w.value == pytest.approx(WATTS, rel=0.01)
    assert chosen.period_s == pytest.approx(PERIOD, rel=0.01)
    nothing = ProbedSensors()
    nothing.add_missing("rapl", ENERGY, "package", "not here")
    monkeypatch.setattr(energy, "find", lambda: nothing)
    assert counters_of_device("cpu") == "rapl: not here"
    earlier = Sensor("rapl", ENERGY, "J", "package", why="older words")
    assert counters_of_device("cpu", [earlier]) == "rapl: not here"
