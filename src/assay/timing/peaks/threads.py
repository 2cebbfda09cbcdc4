"""What more threads bring: the same matrix product with one, two, four … up to what torch uses."""

from __future__ import annotations

from collections.abc import Iterator

from assay.document.machine import Scaling
from assay.timing.peaks.arithmetic import product
from assay.timing.peaks.bursts import TimedDevice, bursts, rate
from assay.timing.settings import threads

SIZE = 1024
BUDGET_S = 0.25


def scaling(where: TimedDevice, most: int) -> Iterator[Scaling]:
    """One row a number of threads; the efficiency is against the first."""
    run = product(where, "fp32", SIZE)
    alone: float | None = None
    for count in _counts(most):
        clock = where.alone() if count == 1 else where
        with threads(count):
            reached = rate("fp32", bursts(clock, run, BUDGET_S), 2 * SIZE**3, f"matmul {SIZE}", clock.clock)
        value = reached.value
        alone = value if alone is None else alone
        yield Scaling(count, reached.best, value / (alone * count) if value and alone else None)


def _counts(most: int) -> list[int]:
    powers = [1 << bit for bit in range(most.bit_length()) if 1 << bit < most]
    return [*powers, most]
