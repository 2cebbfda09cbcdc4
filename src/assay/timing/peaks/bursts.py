"""Timing in bursts shorter than a scheduler's slice: the best is what the machine can do, however busy it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from assay.document.machine import Ceiling, measured, unknown
from assay.machine.samples import middle, spread

Workload = Callable[[], object]

_LEAST = 3
"""Bursts there should be, for up to twice the budget."""
_LONGEST_S = 2.0
"""No second run where the first took longer."""


@dataclass(frozen=True)
class TimedDevice:
    """Where things run, and how their time is taken."""

    device: torch.device
    burst_s: float
    clock: str
    now: Callable[[], float] = time.perf_counter

    @property
    def cuda(self) -> bool:
        """Whether it is an NVIDIA board."""
        return bool(self.device.type == "cuda")

    def timed(self, run: Workload, count: int) -> float:
        """Seconds that `count` runs took: of the device's own clock where it has one."""
        return _device_s(run, count) if self.cuda else self._host_s(run, count)

    def alone(self) -> TimedDevice:
        """The same for one thread, by its own processor time, which other work on the machine takes nothing from."""
        return replace(self, now=time.thread_time, clock="processor time of one thread")

    def generator(self) -> torch.Generator:
        """Random numbers that are nobody else's."""
        return torch.Generator(self.device).manual_seed(0)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Random data: zeros would take less power and so flatter a board."""
        drawn = torch.randn(*shape, generator=self.generator(), device=self.device)
        return drawn.to(dtype)

    def synchronize(self) -> None:
        """Wait for what was started."""
        if self.cuda:
            torch.cuda.synchronize(self.device)

    def _host_s(self, run: Workload, count: int) -> float:
        start = self.now()
        for _ in range(count):
            run()
        return self.now() - start


def place(device: str) -> TimedDevice:
    """`cpu` or `cuda`."""
    if device == "cuda":
        return TimedDevice(torch.device("cuda", 0), 0.02, "CUDA events")
    return TimedDevice(torch.device("cpu"), 0.004, "clock")


def bursts(where: TimedDevice, run: Workload, budget_s: float) -> list[float]:
    """Seconds a run, one for each burst, until the budget is spent; the first run does not count."""
    end_s = time.perf_counter() + budget_s
    one = where.timed(run, 1)
    if one > _LONGEST_S:
        return [one]
    one = min(one, where.timed(run, 1))
    count = max(1, int(where.burst_s / max(one, 1e-9)))
    found: list[float] = []
    while (now := time.perf_counter()) < end_s or (len(found) < _LEAST and now < end_s + budget_s) or not found:
        took = where.timed(run, count)
        found.append(took / count)
        if took < where.burst_s / 2:  # what was timed first was slower than what followed
            count *= 2
    return found


def rate(name: str, times: Sequence[float], work: float, at: str, by: str) -> Ceiling:
    """The limit that runs of so much `work` reached."""
    rates = [work / each for each in times]
    best = measured(max(rates), f"{by}, best burst", repeats=len(rates), spread=spread(rates))
    return Ceiling(name, best, middle(rates, by), at)


def none(name: str, why: str) -> Ceiling:
    """A limit that could not be measured."""
    return Ceiling(name, unknown(why), unknown(why))


def _device_s(run: Workload, count: int) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(count):
        run()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1000
