"""A thread that samples the machine while other code runs, and measures its own overhead."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Sequence

import psutil
from msgspec.structs import replace

from assay.display import Displayed
from assay.document.machine import NOT_MEASURED, MonitorRecording, Series, measured_figure, unknown_figure
from assay.document.provenance import Figure
from assay.errors import UsageError
from assay.machine.gauges.boards import BoardGauge
from assay.machine.gauges.gauge import Gauge
from assay.machine.gauges.perf_events import PerfEvents
from assay.machine.gauges.process import ProcessMemory, counts
from assay.machine.gauges.processor import Frequency, Utilisation
from assay.machine.sensors import nvml
from assay.machine.sensors.probe import SensorError

PERIOD_S = 0.1
BUDGET = 0.005
"""The sampling thread may use at most this share of one core; if samples cost more, they are taken less often."""
_PATIENCE_S = 5.0
_UNIT = 1 if sys.platform == "darwin" else 1024


def all_gauges() -> list[Gauge]:
    """All gauges available on this machine."""
    boards = [BoardGauge(board) for board in nvml.boards().boards]
    return [Utilisation(), Frequency(), ProcessMemory(), *counts(), PerfEvents(), *boards]


class Monitor(Displayed):
    """Samples the machine during a `with` block; read `monitor.recording` afterwards.

    The sampling thread stops when the block ends, even if it raises. A gauge that fails is reported in the
    recording's `problems`; it does not raise.

    Args:
        period_s: Seconds between samples; longer if samples would use more than 0.5 % of one core.
        gauges: What to sample; by default all gauges available on this machine.
    """

    def __init__(self, period_s: float = PERIOD_S, gauges: Sequence[Gauge] | None = None) -> None:
        if isinstance(period_s, bool) or not isinstance(period_s, (int, float)) or not 0 < period_s < math.inf:
            raise UsageError(f"period_s must be a positive number of seconds, got {period_s!r:.60}")
        self._period_s = period_s
        self._requested_gauges = gauges
        self._gauges: list[Gauge] = []
        self._rows: list[tuple[float, list[float | None]]] = []
        self._lost: dict[int, str] = {}
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._start_s = self._end_s = 0.0
        self._cpu_s = 0.0
        self._stuck = False

    def __enter__(self) -> Monitor:
        self._gauges = list(all_gauges() if self._requested_gauges is None else self._requested_gauges)
        self._rows, self._lost, self._cpu_s, self._stuck = [], {}, 0.0, False
        self._done = threading.Event()
        self._start_s = time.perf_counter()
        self._thread = threading.Thread(target=self._sample, name="assay-monitor", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join(_PATIENCE_S)
            self._stuck = self._thread.is_alive()
        self._end_s = time.perf_counter()
        for gauge in self._gauges:
            gauge.close()

    @property
    def recording(self) -> MonitorRecording:
        """The samples taken so far."""
        rows = list(self._rows)
        empty = [series for gauge in self._gauges for series in gauge.series]
        columns: list[Series] = [
            replace(series, values=[row[index] for _, row in rows]) for index, series in enumerate(empty)
        ]
        return MonitorRecording(
            times_s=[when for when, _ in rows],
            series=columns,
            period_s=self._period_s,
            overhead=self._overhead(),
            rss_peak=_peak(),
            problems=self._problems(),
        )

    def _sample(self) -> None:
        begun = time.thread_time()
        wait_s = 0.0
        while not self._done.wait(wait_s):
            before = time.thread_time()
            self._rows.append((time.perf_counter() - self._start_s, self._values()))
            now = time.thread_time()
            self._cpu_s = now - begun
            wait_s = max(self._period_s, (now - before) / BUDGET)
        self._cpu_s = time.thread_time() - begun

    def _values(self) -> list[float | None]:
        values: list[float | None] = []
        for index, gauge in enumerate(self._gauges):
            values += self._read(index, gauge)
        return values

    def _read(self, index: int, gauge: Gauge) -> Sequence[float | None]:
        """The current values of `gauge`; once a gauge has failed, it is not read again."""
        nothing = [None] * len(gauge.series)
        if index in self._lost:
            return nothing
        try:
            return gauge.read()
        except (OSError, ValueError, RuntimeError, SensorError, psutil.Error) as error:
            self._lost[index] = f"{gauge.series[0].name}: reading failed, so sampling stopped: {error}"
            return nothing

    def _overhead(self) -> Figure:
        passed = (self._end_s or time.perf_counter()) - self._start_s
        if not self._rows or passed <= 0:
            return NOT_MEASURED
        return measured_figure(self._cpu_s / passed, "processor time of the sampling thread", repeats=len(self._rows))

    def _problems(self) -> tuple[str, ...]:
        stuck = [f"sampling did not stop within {_PATIENCE_S:.0f} s: a sensor is hanging"] if self._stuck else []
        return (*(line for gauge in self._gauges for line in gauge.problems), *self._lost.values(), *stuck)


def _peak() -> Figure:
    try:
        import resource
    except ImportError:
        return unknown_figure("this operating system does not report peak memory")
    return measured_figure(
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT, "the kernel's peak of this process"
    )
