"""Timing in bursts shorter than a scheduler time slice, so that even a busy machine leaves some undisturbed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from assay.document.machine import Ceiling, measured_figure, unknown_figure
from assay.machine.samples import median_figure, spread

Workload = Callable[[], object]

_LEAST = 3
"""The minimum number of bursts, unless they would take more than twice the budget."""
_LONGEST_S = 2.0
"""If the first run took longer than this, there is no second."""


@dataclass(frozen=True)
class TimedDevice:
    """The device that runs a workload, and the clock that times it."""

    device: torch.device
    burst_s: float
    clock: str
    now: Callable[[], float] = time.perf_counter

    @property
    def cuda(self) -> bool:
        """Whether it is an NVIDIA board."""
        return bool(self.device.type == "cuda")

    def timed(self, run: Workload, count: int) -> float:
        """Seconds for `count` runs, by the device's own clock if it has one."""
        return _device_s(run, count) if self.cuda else self._host_s(run, count)

    def alone(self) -> TimedDevice:
        """The same device, timed by the CPU time of one thread, which excludes other processes."""
        return replace(self, now=time.thread_time, clock="CPU time of one thread")

    def generator(self) -> torch.Generator:
        """A private random generator, so that the global random state stays unchanged."""
        return torch.Generator(self.device).manual_seed(0)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Normally distributed data; zeros would draw less power and overstate a board's speed."""
        drawn = torch.randn(*shape, generator=self.generator(), device=self.device)
        return drawn.to(dtype)

    def synchronize(self) -> None:
        """Wait for launched work."""
        if self.cuda:
            torch.cuda.synchronize(self.device)

    def _host_s(self, run: Workload, count: int) -> float:
        start = self.now()
        for _ in range(count):
            run()
        return self.now() - start


def timed_device(device: str) -> TimedDevice:
    """The timed device for `cpu` or `cuda`."""
    if device == "cuda":
        return TimedDevice(torch.device("cuda", 0), 0.02, "CUDA events")
    return TimedDevice(torch.device("cpu"), 0.004, "clock")


def bursts(where: TimedDevice, run: Workload, budget_s: float) -> list[float]:
    """Seconds per run, one value per burst, until the budget is spent; the first run is not counted."""
    end_s = time.perf_counter() + budget_s
    one = where.timed(run, 1)
    if one > _LONGEST_S:
        return [one]
    one = min(one, where.timed(run, 1))
    count = max(1, int(where.burst_s / max(one, 1e-9)))
    times: list[float] = []
    while (now := time.perf_counter()) < end_s or (len(times) < _LEAST and now < end_s + budget_s) or not times:
        took = where.timed(run, count)
        times.append(took / count)
        if took < where.burst_s / 2:  # the first runs were slower than later ones, so the burst is too short
            count *= 2
    return times


def rate(name: str, times: Sequence[float], work: float, at: str, by: str) -> Ceiling:
    """The limit reached by runs that each do `work` (FLOPs or bytes) in `times` seconds."""
    rates = [work / each for each in times]
    best = measured_figure(max(rates), f"{by}, best burst", repeats=len(rates), spread=spread(rates))
    return Ceiling(name, best, median_figure(rates, by), at)


def unmeasured(name: str, why: str) -> Ceiling:
    """A limit that could not be measured."""
    return Ceiling(name, unknown_figure(why), unknown_figure(why))


def _device_s(run: Workload, count: int) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(count):
        run()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1000
