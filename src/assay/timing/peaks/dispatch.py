"""The overhead of an op on tiny inputs: the lower bound on the time of any op."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch

from assay.document.machine import Ceiling, measured_figure
from assay.machine.samples import median_figure, spread
from assay.timing.peaks.bursts import TimedDevice, Workload, bursts

BUDGET_S = 0.15
_LAUNCHES = 200


def overheads(where: TimedDevice, share: float = 1.0) -> Iterator[Ceiling]:
    """Seconds per add, linear layer and convolution on tiny inputs; on a board also of launching one op."""
    for name, run in _tiny(where).items():
        times = bursts(where, run, share * BUDGET_S)
        yield _least(name, times, "tiny tensors", where.clock)
    if where.cuda:
        add = _tiny(where)["add"]
        yield _least("launch", [_launch_s(where, add) for _ in range(10)], "host time of one add", "clock")


def _tiny(where: TimedDevice) -> dict[str, Workload]:
    vector, into = where.normal(8), where.normal(8)
    row, weight = where.normal(1, 8), where.normal(8, 8)
    image, kernel = where.normal(1, 4, 4, 4), where.normal(4, 4, 3, 3)
    return {
        "add": lambda: torch.add(vector, vector, out=into),
        "linear": lambda: torch.nn.functional.linear(row, weight),
        "conv2d": lambda: torch.nn.functional.conv2d(image, kernel, padding=1),
    }


def _launch_s(where: TimedDevice, run: Workload) -> float:
    where.synchronize()
    start = time.perf_counter()
    for _ in range(_LAUNCHES):
        run()
    took = time.perf_counter() - start
    where.synchronize()
    return took / _LAUNCHES


def _least(name: str, times: list[float], at: str, by: str) -> Ceiling:
    best = measured_figure(min(times), f"{by}, best burst", repeats=len(times), spread=spread(times))
    return Ceiling(name, best, median_figure(times, by), at)
