"""Peak FLOPs per second by precision (the best matrix product over several sizes), and scaling with threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from assay.document.machine import Ceiling, Scaling
from assay.messages import first_line, one_line
from assay.timing.peaks.bursts import TimedDevice, Workload, bursts, rate, unmeasured
from assay.timing.settings import matmul_precision, threads

Maker = Callable[[TimedDevice, int], Workload]

SIZES = {"cpu": (256, 512, 1024, 1536), "cuda": (2048, 4096, 8192, 16384)}
BUDGET_S = {"cpu": 0.5, "cuda": 0.5}
MAIN = ("fp32", "bf16")
"""The precisions of most models, measured first."""
_TRIAL = 0.12
"""The share of the budget spent on each size before the best size is chosen."""
_SMALL = 2
"""The number of sizes small enough for one thread to finish a product within a scheduler time slice."""
SCALING_SIZE = 1024
SCALING_S = 0.25


@dataclass(frozen=True)
class Precision:
    """How to build a matrix product in one precision, and which devices support it."""

    make: Maker
    devices: tuple[str, ...] = ("cpu", "cuda")
    capability: tuple[int, int] = (0, 0)
    """The lowest CUDA compute capability that supports it."""


def precisions(where: TimedDevice) -> list[str]:
    """The precisions that this kind of device may support, in display order."""
    return [name for name, precision in PRECISIONS.items() if where.device.type in precision.devices]


def peak(where: TimedDevice, name: str, share: float = 1.0) -> Ceiling:
    """The limit in the precision `name`, measured in `share` of the time budget."""
    precision = PRECISIONS[name]
    if where.cuda and torch.cuda.get_device_capability(where.device) < precision.capability:
        needed = ".".join(map(str, precision.capability))
        return unmeasured(name, f"requires compute capability {needed}")
    try:
        return _searched(where, name, precision.make, share * BUDGET_S[where.device.type])
    except (RuntimeError, AttributeError, TypeError) as error:
        return unmeasured(
            name, f"torch does not support this matrix product on this device: {one_line(first_line(error))}"
        )


def product(where: TimedDevice, name: str, size: int) -> Workload:
    """A function that multiplies two square matrices in the precision `name`."""
    return PRECISIONS[name].make(where, size)


def scaling(where: TimedDevice, most: int) -> Iterator[Scaling]:
    """The rate of one product with 1, 2, 4, … up to `most` threads, and its efficiency relative to one thread."""
    run, at = product(where, "fp32", SCALING_SIZE), f"matmul {SCALING_SIZE}"
    alone: float | None = None
    for count in [*(1 << bit for bit in range(most.bit_length()) if 1 << bit < most), most]:
        clock = where.alone() if count == 1 else where
        with threads(count):
            reached = rate("fp32", bursts(clock, run, SCALING_S), 2 * SCALING_SIZE**3, at, clock.clock)
        value = reached.value
        alone = value if alone is None else alone
        yield Scaling(count, reached.best, value / (alone * count) if value and alone else None)


def _searched(where: TimedDevice, name: str, make: Maker, budget_s: float) -> Ceiling:
    """Try every size briefly, then spend the rest of the budget on the best one."""
    trials: dict[int, float] = {}
    for size in SIZES[where.device.type]:
        # A far slower precision would otherwise spend the whole budget on one size.
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
    """The rates of one thread: on a busy machine it can beat several threads, which wait for one another."""
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
    """A maker of float32 products under torch's float32 matmul precision `precision`."""

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
"""In display order."""
