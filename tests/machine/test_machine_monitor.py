"""The sampling thread: its samples, its overhead, and that it always ends."""

from __future__ import annotations

import mmap
import os
import threading
import time
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from clocks import HANG_S
from machine_fakes import NVMLError, nvml, write

from assay.document.machine import Series
from assay.machine.gauges.boards import BoardGauge
from assay.machine.gauges.perf_events import PerfEvents
from assay.machine.gauges.process import SystemCounts, disk_bytes
from assay.machine.gauges.processor import Frequency, Utilisation
from assay.machine.monitor import Monitor
from assay.machine.sensors import nvml as nvml_sensors


class Scripted:
    """A gauge that returns given values or raises given errors."""

    def __init__(self, *answers: object) -> None:
        self.series = [Series("scripted", "1", "process")]
        self.problems = ()
        self.answers, self.closed = list(answers), False

    def read(self):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return [answer]

    def close(self) -> None:
        self.closed = True


def waited(monitor: Monitor, samples: int) -> None:
    """Wait until there are this many samples."""
    end = time.monotonic() + HANG_S
    while len(monitor.recording.times_s) < samples and time.monotonic() < end:
        time.sleep(0.005)


def test_samples_are_kept_in_order():
    gauge = Scripted(1.0, 2.0, None, 4.0)
    with Monitor(0.001, [gauge]) as monitor:
        waited(monitor, 5)
    found = monitor.recording
    assert found.named("scripted").values[:4] == [1.0, 2.0, None, 4.0]
    assert found.times_s == sorted(found.times_s)
    assert len(found.times_s) == len(found.named("scripted").values)
    assert gauge.closed
    assert found.named("scripted").peak == 4.0
    assert found.named("nothing") is None


@pytest.mark.parametrize("error", [OSError("gone"), ValueError("odd"), psutil.NoSuchProcess(1)])
def test_a_failing_gauge_gives_one_problem_and_no_values(error):
    with Monitor(0.001, [Scripted(5.0, error), Scripted(7.0)]) as monitor:
        waited(monitor, 4)
    found = monitor.recording
    assert found.series[0].values[0] == 5.0
    assert set(found.series[0].values[1:]) == {None}
    assert set(found.series[1].values) == {7.0}
    assert len(found.problems) == 1
    assert "reading failed" in found.problems[0]


def test_sampling_ends_if_the_block_raises():
    before = threading.active_count()
    gauge = Scripted(1.0)
    with pytest.raises(KeyboardInterrupt), Monitor(0.001, [gauge]):
        raise KeyboardInterrupt
    assert threading.active_count() == before
    assert gauge.closed


def test_a_monitor_can_be_used_again():
    monitor = Monitor(0.001, [Scripted(1.0)])
    for _ in range(2):
        with monitor:
            waited(monitor, 2)
        assert monitor.recording.times_s[0] < monitor.recording.times_s[-1]


def test_costly_samples_are_taken_less_often():
    class Costly(Scripted):
        def read(self):
            end = time.thread_time() + 0.002
            while time.thread_time() < end:
                pass
            return [1.0]

    with Monitor(0.0001, [Costly(1.0)]) as monitor:
        waited(monitor, 3)
    # 2 ms of processor time are 0.5 % of 0.4 s.
    times_s = monitor.recording.times_s
    assert len(times_s) >= 3
    assert all(after - before >= 0.4 for before, after in pairwise(times_s))


def test_all_gauges_of_this_machine():
    with Monitor(0.02) as monitor:
        waited(monitor, 3)
    found = monitor.recording
    assert found.named("process.rss").peak > 1 << 20
    assert found.rss_peak.value >= found.named("process.rss").peak * 0.5
    assert all(0 <= value <= 1 for value in found.named("cpu.utilisation").known)
    assert found.overhead.value is not None
    for series in found.series:
        assert len(series.values) == len(found.times_s)
        silent = any(line.startswith(series.name) for line in found.problems)
        assert series.known or silent or series.name.endswith("utilisation")


def test_counts_begin_at_zero_and_grow(tmp_path):
    numbers = iter([[100.0, 7.0], [130.0, 7.0], None])
    gauge = SystemCounts(lambda: next(numbers), ("a", "b"), "B", "machine")
    assert gauge.read() == [30.0, 0.0]
    assert gauge.read() == [None, None]
    absent = SystemCounts(lambda: None, ("a", "b"), "B", "machine")
    assert absent.read() == [None, None]
    assert len(absent.problems) == 2


def test_only_whole_disks_count(tmp_path):
    lines = [
        "8 0 sda 5 0 100 0 3 0 40 0 0 0 0",
        "8 1 sda1 5 0 100 0 3 0 40 0 0 0 0",
        "7 0 loop0 1 0 8 0 0 0 0 0 0 0 0",
    ]
    table = write(tmp_path / "diskstats", "\n".join(lines))
    for name in ("sda", "loop0"):
        (tmp_path / "block" / name).mkdir(parents=True)
    assert disk_bytes(table, tmp_path / "block")() == [51200.0, 20480.0]


def test_frequency_is_the_mean_or_unknown(tmp_path):
    for core, clock in enumerate((2_000_000, 3_000_000)):
        write(tmp_path / f"cpu{core}" / "cpufreq" / "scaling_cur_freq", clock)
    assert Frequency(tmp_path).read() == [2500.0]
    write(tmp_path / "cpu1" / "cpufreq" / "scaling_cur_freq", "<unknown>")
    assert Frequency(tmp_path).read() == [2000.0]
    assert Frequency(tmp_path / "none").read() == [None]
    assert Frequency(tmp_path / "none").problems


def test_a_busy_core_is_detected():
    gauge = Utilisation()
    end = time.process_time() + 0.15
    while time.process_time() < end:
        pass
    values = gauge.read()
    assert len(values) == 1 + psutil.cpu_count()
    assert max(value for value in values[1:] if value is not None) > 0.3


def test_a_board_that_stops_responding():
    module = nvml()
    gauge = BoardGauge(nvml_sensors.boards(module, {}).boards[0])
    names = [series.name for series in gauge.series]
    assert dict(zip(names, gauge.read(), strict=True)) == {
        "gpu.0.utilisation": 0.87,
        "gpu.0.memory": float(3 << 30),
        "gpu.0.temperature": 41.0,
        "gpu.0.power": 200.0,
        "gpu.0.clock.sm": 1980.0,
        "gpu.0.clock.memory": 3201.0,
        "gpu.0.throttle": 4.0,
    }

    def lost(handle: int) -> int:
        raise NVMLError("GPU is lost")

    module.nvmlDeviceGetPowerUsage = lost
    assert gauge.read()[names.index("gpu.0.power")] is None
    assert gauge.read()[names.index("gpu.0.temperature")] == 41.0
    assert list(gauge.problems) == ["gpu.0.power: NVML: GPU is lost"]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="Linux alone has perf events")
def test_perf_events_count_or_report_why_not():
    software = 1  # PERF_TYPE_SOFTWARE
    gauge = PerfEvents({"faults": (software, 2), "nonsense": (software, 9999)})
    before = set(os.listdir("/proc/self/fd"))
    with mmap.mmap(-1, 1 << 24) as fresh:  # memory that this process never had
        for place in range(0, len(fresh), 1 << 12):
            fresh[place] = 1
        faults, nonsense = gauge.read()
    assert nonsense is None
    assert any(line.startswith("nonsense: ") for line in gauge.problems)
    if faults is None:
        assert any(line.startswith("faults: ") for line in gauge.problems)
    else:
        assert faults > 100
    gauge.close()
    assert len(set(os.listdir("/proc/self/fd"))) <= len(before)
    assert gauge.read() == [None, None]
