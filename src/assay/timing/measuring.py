"""Timed passes: bare ones and clocked ones in turn, after warm-up, on a model that is left as it was.

Times come from passes in which nothing is recorded; what the module clock adds is known, because bare passes run
between the clocked ones.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from assay.recorder import inventory
from assay.recorder.backward import differentiable
from assay.recorder.inventory import tensors_among
from assay.recorder.watch import Pass, Setting, no_collection, ready, watch
from assay.timing.device import device_of, now, synchronizer
from assay.timing.module_clock import ModuleClock, Spans
from assay.timing.op_clock import OpClock, OpKernels

_BURST_NS = 50_000_000
"""Passes that are waited for together take about this long."""


class Budget(NamedTuple):
    """How long to measure: at least `least` passes, then until the time or the passes are used up."""

    warmup: int = 2
    least: int = 3
    most: int = 50
    seconds: float = 2.0


class ClockedPasses(NamedTuple):
    """Bare and clocked passes of one model, in nanoseconds."""

    bare: list[int]
    clocked: list[int]
    spans: list[Spans]
    """Of each clocked pass, by the processor's clock."""
    device: str


class TimedPass(NamedTuple):
    """A recorded pass and the time of each of its operations in every repetition."""

    shown: Pass
    times: list[list[int | None]]
    """One list a pass, in the order of `shown.ops`."""
    whole: list[int]
    on_device: bool = False
    """Whether the times are those of kernels."""


class Bench:
    """A model made ready to run again and again, until the context ends.

    `run` is one whole pass, `forward` its forward part; `tidy` clears what must not stay, and is not timed.
    """

    def __init__(
        self, device: torch.device, run: Callable[[], None], forward: Callable[[], object], tidy: Callable[[], None]
    ) -> None:
        self.device, self.run = device, run
        self._forward, self._tidy = forward, tidy
        self._wait = synchronizer(device)

    def time_ns(self) -> int:
        """One pass, waited for."""
        return self._timed(self.run)

    def warm(self, passes: int) -> None:
        """Run without reading a clock."""
        for _ in range(passes):
            self.time_ns()

    def repeat(self, budget: Budget) -> list[int]:
        """Bare passes, warm-up left out."""
        self.warm(budget.warmup)
        return list(_within(budget, self.time_ns))

    def repeat_bursts(self, budget: Budget) -> list[int]:
        """Passes back to back, waited for together: on an accelerator launching one overlaps with running another."""
        count = max(1, round(_BURST_NS / max(min(self.time_ns() for _ in range(3)), 1)))

        def burst() -> None:
            for _ in range(count):
                self.run()
                self._tidy()

        return [took // count for took in _within(budget, lambda: self._timed(burst))]

    def repeat_forward(self, budget: Budget) -> list[int]:
        """The forward part of a pass alone, with autograd as in the pass."""
        return list(_within(budget, lambda: self._timed(self._forward)))

    def _timed(self, run: Callable[[], object]) -> int:
        self._wait()
        begin = now()
        run()
        self._wait()
        took = now() - begin
        self._tidy()
        return took


@contextlib.contextmanager
def bench(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    setting: Setting,
    *,
    keep_parameters: bool = False,
) -> Iterator[Bench]:
    """`model` ready to run under `setting`; inputs, buffers and, where a pass writes them, parameters are kept."""
    members = inventory.members(model)
    with ready(model, members, args, kwargs, setting) as given:
        placed = inventory.members(model).tensors
        called = tree_map_only(torch.Tensor, _own, (given.args, given.kwargs))
        kept = [tensor for tensor in placed if keep_parameters or not isinstance(tensor, nn.Parameter)]
        # A collection inside a timed pass would be charged to whichever module happens to run.
        gc.collect()
        with _values_kept(kept), no_collection():
            yield _bench(model, called, placed, setting)


def clock_modules(stand: Bench, index: dict[int, int], budget: Budget) -> ClockedPasses:
    """Bare and clocked passes in turn, so that a busy machine slows both alike."""
    stand.warm(budget.warmup)
    clock = ModuleClock()
    bare: list[int] = []
    clocked: list[int] = []
    spans: list[Spans] = []

    def both() -> int:
        bare.append(stand.time_ns())
        with clock:
            clocked.append(stand.time_ns())
        spans.append(clock.spans(index))
        return bare[-1] + clocked[-1]

    for _ in _within(budget, both):
        pass
    return ClockedPasses(bare, clocked, spans, str(stand.device))


def clock_ops(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], setting: Setting, budget: Budget
) -> TimedPass:
    """The operations of a pass with their times over several passes; passes that took another way are left out.

    On an accelerator the times are those of the kernels they launched.
    """
    members = inventory.members(model)
    device = device_of([*members.tensors, *tensors_among((args, kwargs))])
    if setting.device is not None:
        device = torch.device(setting.device)
    wait = synchronizer(device)
    first: Pass | None = None
    times: list[list[int | None]] = []
    whole: list[int] = []

    def once() -> int:
        nonlocal first
        with contextlib.nullcontext(OpClock()) if device.type == "cpu" else OpKernels() as clock:
            begin = now()
            shown = watch(model, members, args, kwargs, setting, clock.call)
            wait()
            took = now() - begin
        if shown.error is not None:
            raise shown.error
        if first is None:
            first = shown
        if [op.kind for op in shown.ops] == [op.kind for op in first.ops]:
            times.append(clock.times_ns(shown.kinds, shown.ops))
            whole.append(took)
        return took

    for _ in range(min(budget.warmup, 1)):
        once()
    times.clear()
    whole.clear()
    for _ in _within(budget, once):
        pass
    assert first is not None
    return TimedPass(first, times, whole, device.type != "cpu")


def _within(budget: Budget, measure: Callable[[], int]) -> Iterator[int]:
    spent = 0
    for done in range(budget.most):
        if done >= budget.least and spent >= budget.seconds * 1e9:
            return
        took = measure()
        spent += took
        yield took


def _bench(
    model: nn.Module,
    called: tuple[tuple[Any, ...], dict[str, Any]],
    placed: Sequence[torch.Tensor],
    setting: Setting,
) -> Bench:
    args, kwargs = called
    device = device_of([*placed, *tensors_among(called)])

    def inference() -> None:
        with torch.no_grad():
            model(*args, **kwargs)

    def forward() -> Any:
        with torch.enable_grad():
            return model(*args, **kwargs)

    def step() -> None:
        outputs = differentiable(forward())
        torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])

    def clear() -> None:
        for tensor in placed:
            tensor.grad = None

    if setting.backward:
        return Bench(device, step, forward, clear)
    return Bench(device, inference, inference, lambda: None)


@contextlib.contextmanager
def _values_kept(tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """The values of `tensors` as they were, whatever passes write into them."""
    saved = [(tensor, tensor.detach().clone()) for tensor in tensors if not tensor.is_meta]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, values in saved:
                tensor.copy_(values)


def _own(tensor: torch.Tensor) -> torch.Tensor:
    """A copy that passes may write into; what the user gave stays."""
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)
