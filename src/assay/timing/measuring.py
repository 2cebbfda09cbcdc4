"""Timed passes after a warm-up, alternating with and without the module clock; the model is left unchanged.

Pass times come from passes in which nothing is recorded. The overhead of the module clock is known, because bare
passes alternate with clocked ones.
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
from assay.recorder.guard import restored_state, values_restored
from assay.recorder.inventory import tensors_among
from assay.recorder.watch import Pass, PassSettings, garbage_collection_paused, prepared_model, record_pass
from assay.timing.device import device_of, now, synchronizer
from assay.timing.module_clock import ModuleClock, Spans
from assay.timing.op_clock import OpClock, OpKernels

_BURST_NS = 50_000_000
"""Approximate duration of a burst of passes between two synchronisations."""


class Budget(NamedTuple):
    """How long to measure: at least `least` passes, then until `seconds` have passed or `most` passes have run."""

    warmup: int = 2
    least: int = 3
    most: int = 50
    seconds: float = 2.0


class ClockedPasses(NamedTuple):
    """Bare and clocked passes of one model, in nanoseconds."""

    bare: list[int]
    clocked: list[int]
    spans: list[Spans]
    """The module times of each clocked pass, by the CPU's clock."""
    device: str


class TimedPass(NamedTuple):
    """A recorded pass and the times of its ops in every repetition."""

    shown: Pass
    times: list[list[int | None]]
    """One list per repetition, in the order of `shown.ops`."""
    whole: list[int]
    on_device: bool = False
    """Whether the times are kernel times on an accelerator."""


class Bench:
    """A model that is ready to run repeatedly until the context ends.

    `run` runs one whole pass, `forward` only its forward part; `tidy` clears gradients after a pass and is not timed.
    """

    def __init__(
        self, device: torch.device, run: Callable[[], None], forward: Callable[[], object], tidy: Callable[[], None]
    ) -> None:
        self.device, self.run = device, run
        self._forward, self._tidy = forward, tidy
        self._wait = synchronizer(device)

    def time_ns(self) -> int:
        """The time of one pass, including the wait for the device."""
        return self._timed(self.run)

    def warm(self, passes: int) -> None:
        """Run `passes` passes and discard their times."""
        for _ in range(passes):
            self.time_ns()

    def repeat(self, budget: Budget) -> list[int]:
        """The times of bare passes, after a warm-up."""
        self.warm(budget.warmup)
        return list(_within(budget, self.time_ns))

    def repeat_bursts(self, budget: Budget) -> list[int]:
        """Times per pass in bursts without waits in between, so that launches overlap with running kernels."""
        count = max(1, round(_BURST_NS / max(min(self.time_ns() for _ in range(3)), 1)))

        def burst() -> None:
            for _ in range(count):
                self.run()
                self._tidy()

        return [took // count for took in _within(budget, lambda: self._timed(burst))]

    def repeat_forward(self, budget: Budget) -> list[int]:
        """The times of only the forward part of a pass, with autograd on or off as in the pass."""
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
    setting: PassSettings,
    *,
    keep_parameters: bool = False,
) -> Iterator[Bench]:
    """`model` ready to run under `setting`; inputs, buffers and (with `keep_parameters`) parameters are restored."""
    members = inventory.members(model)
    with prepared_model(model, members, args, kwargs, setting) as prepared:
        placed = inventory.members(model).tensors
        own = set(map(id, members.tensors))
        held = [*placed, *(tensor for tensor in prepared.held if id(tensor) not in own)]
        inputs = tree_map_only(torch.Tensor, _own, (prepared.args, prepared.kwargs))
        restored = [tensor for tensor in held if keep_parameters or not isinstance(tensor, nn.Parameter)]
        # A garbage collection inside a timed pass would be charged to the module that happens to run.
        gc.collect()
        with values_restored(restored), restored_state(members.modules) as restore, garbage_collection_paused():
            yield _bench(model, inputs, placed, setting, restore)


def clock_modules(test_bench: Bench, index: dict[int, int], budget: Budget) -> ClockedPasses:
    """Alternate bare and clocked passes, so that a busy machine slows both equally."""
    test_bench.warm(budget.warmup)
    clock = ModuleClock()
    bare: list[int] = []
    clocked: list[int] = []
    spans: list[Spans] = []

    def both() -> int:
        bare.append(test_bench.time_ns())
        with clock:
            clocked.append(test_bench.time_ns())
        spans.append(clock.spans(index))
        return bare[-1] + clocked[-1]

    for _ in _within(budget, both):
        pass
    return ClockedPasses(bare, clocked, spans, str(test_bench.device))


def clock_ops(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], setting: PassSettings, budget: Budget
) -> TimedPass:
    """The ops of a pass with their times over several passes; passes that ran a different op sequence are skipped.

    On an accelerator, an op's time is that of the kernels it launched.
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
            shown = record_pass(model, members, args, kwargs, setting, clock.call)
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
    inputs: tuple[tuple[Any, ...], dict[str, Any]],
    placed: Sequence[torch.Tensor],
    setting: PassSettings,
    restore: Callable[[], None],
) -> Bench:
    args, kwargs = inputs
    device = device_of([*placed, *tensors_among(inputs)])

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
        restore()

    if setting.backward:
        return Bench(device, step, forward, clear)
    return Bench(device, inference, inference, restore)


def _own(tensor: torch.Tensor) -> torch.Tensor:
    """A copy that passes may write into, so that the user's tensor stays unchanged."""
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)
