"""Peak FLOPs a second by precision: the best of many matrix products over several sizes; and what threads bring."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from assay.document.machine import Ceiling, Scaling
from assay.messages import brief, first_line
from assay.timing.peaks.bursts import TimedDevice, Workload, bursts, none, rate
from assay.timing.settings import matmul_precision, threads

Maker = Callable[[TimedDevice, int], Workload]

SIZES = {"cpu": (256, 512, 1024, 1536), "cuda": (2048, 4096, 8192, 16384)}
BUDGET_S = {"cpu": 0.5, "cuda": 0.5}
_TRIAL = 0.12
"""The part of the budget each size gets before the best is chosen."""
_SMALL = 2
"""So many sizes are small enough that one thread does a product within a scheduler's slice."""
SCALING_SIZE = 1024
SCALING_S = 0.25


@dataclass(frozen=True)
class Precision:
    """How a product in it is made, where it can be."""

    make: Maker
    devices: tuple[str, ...] = ("cpu", "cuda")
    capability: tuple[int, int] = (0, 0)
    """What a board must be capable of to have it."""


def peaks(where: TimedDevice) -> Iterator[Ceiling]:
    """One ceiling a precision that this kind of device may have."""
    for name, precision in PRECISIONS.items():
        if where.device.type in precision.devices:
            yield _peak(where, name, precision)


def product(where: TimedDevice, name: str, size: int) -> Workload:
    """Something that multiplies two square matrices in the precision `name`."""
    return PRECISIONS[name].make(where, size)


def scaling(where: TimedDevice, most: int) -> Iterator[Scaling]:
    """The same product with one, two, four … up to `most` threads; the efficiency is against the first."""
    run, at = product(where, "fp32", SCALING_SIZE), f"matmul {SCALING_SIZE}"
    alone: float | None = None
    for count in [*(1 << bit for bit in range(most.bit_length()) if 1 << bit < most), most]:
        clock = where.alone() if count == 1 else where
        with threads(count):
            reached = rate("fp32", bursts(clock, run, SCALING_S), 2 * SCALING_SIZE**3, at, clock.clock)
        value = reached.value
        alone = value if alone is None else alone
        yield Scaling(count, reached.best, value / (alone * count) if value and alone else None)


def _peak(where: TimedDevice, name: str, precision: Precision) -> Ceiling:
    if where.cuda and torch.cuda.get_device_capability(where.device) < precision.capability:
        needed = ".".join(map(str, precision.capability))
        return none(name, f"needs compute capability {needed}")
    try:
        return _searched(where, name, precision.make, BUDGET_S[where.device.type])
    except (RuntimeError, AttributeError, TypeError) as error:
        return none(name, f"torch has no product of it here: {brief(first_line(error))}")


def _searched(where: TimedDevice, name: str, make: Maker, budget_s: float) -> Ceiling:
    """Every size for a moment, then the best size for what is left."""
    trials: dict[int, float] = {}
    for size in SIZES[where.device.type]:
        # A product that is far slower than others would spend everything on its first size.
        if trials and min(trials.values()) * size**3 > budget_s / 4:
            break
        try:
            trials[size] = min(bursts(where, make(where, size), budget_s * _TRIAL)) / size**3
        except torch.OutOfMemoryError:
            break
    best = min(trials, key=lambda size: trials[size])
    rest = max(budget_s * (1 - _TRIAL * len(trials)), budget_s / 4)
    together = rate(name, bursts(where, make(where, best), rest), 2 * best**3, f"matmul {best}", where.clock)
    if where.cuda:
        return together
    rates = [together, *_alone(where, name, make, budget_s)]
    return max(rates, key=lambda one: one.value or 0)


def _alone(where: TimedDevice, name: str, make: Maker, budget_s: float) -> Iterator[Ceiling]:
    """What one thread reaches: more than several do on a busy machine, where they wait for one another."""
    with threads(1):
        for size in SIZES["cpu"][:_SMALL]:
            times = bursts(where.alone(), make(where, size), budget_s * _TRIAL)
            yield rate(name, times, 2 * size**3, f"matmul {size}, 1 thread", where.alone().clock)


def _plain(dtype: torch.dtype) -> Maker:
    def make(where: TimedDevice, size: int) -> Workload:
        left, right = where.normal(size, size, dtype=dtype), where.normal(size, size, dtype=dtype)
        into = torch.empty_like(left)
        return lambda: torch.mm(left, right, out=into)

    return make


def _single(precision: str) -> Maker:
    """Of float32, as exact as torch's setting of that name says."""

    def make(where: TimedDevice, size: int) -> Workload:
        run = _plain(torch.float32)(where, size)

        def multiply() -> None:
            with matmul_precision(precision):
                run()

        return multiply

    return make


def _int8(where: TimedDevice, size: int) -> Workload:
    drawn = [
        torch.randint(-128, 127, (size, size), generator=where.generator(), device=where.device, dtype=torch.int8)
        for _ in range(2)
    ]
    left, right = drawn[0], drawn[1].t()
    return lambda: torch._int_mm(left, right)


def _fp8(where: TimedDevice, size: int) -> Workload:
    left = where.normal(size, size).to(torch.float8_e4m3fn)
    right = where.normal(size, size).to(torch.float8_e4m3fn).t()
    scale = torch.ones((), device=where.device)
    return lambda: torch._scaled_mm(
        left, right, scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16, use_fast_accum=True
    )


PRECISIONS = {
    "fp64": Precision(_plain(torch.float64)),
    "fp32": Precision(_single("highest")),
    "tf32": Precision(_single("high"), ("cuda",), (8, 0)),
    "bf16": Precision(_plain(torch.bfloat16)),
    "fp16": Precision(_plain(torch.float16)),
    "fp8": Precision(_fp8, ("cuda",), (8, 9)),
    "int8": Precision(_int8, capability=(7, 5)),
}
"""In the order they are shown."""
