"""A model prepared for repeated, timed passes or training steps; it is left unchanged."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from assay.machine.waiting import ProcessorWait
from assay.recorder import inventory
from assay.recorder.backward import differentiable
from assay.recorder.guard import restored_state, values_restored
from assay.recorder.inventory import tensors_among
from assay.recorder.scripted import MarkedModules
from assay.recorder.watch import PassSettings, garbage_collection_paused, prepared_model
from assay.timing.device import device_of, now, processor_now, synchronizer
from assay.timing.segments import halves_agree

_BURST_NS = 50_000_000
"""Approximate duration of a burst of passes between two synchronisations."""
_CHECKED = 4
"""Whether results have settled is checked after every fourth pass."""


class Budget(NamedTuple):
    """How long to measure: until the results have settled, `seconds` have passed or `most` passes have run.

    At least `least` passes run, unless they take more than twice as long.
    """

    warmup: int = 2
    least: int = 3
    most: int = 100
    seconds: float = 10.0
    on_repeat: Callable[[], None] = lambda: None
    """Called after each measurement, outside of what is timed."""


class PassClock(NamedTuple):
    """The times of one pass, in nanoseconds."""

    begin: int
    returned: int
    """When the model returned; on an accelerator, kernels may still be running."""
    end: int
    waited: int | None
    """How long threads of this process waited for a processor; None if the kernel does not count it."""
    process: int
    """CPU time of all threads of this process."""
    thread_begin: int
    """CPU time of the thread that ran the model, before the pass."""
    thread_end: int
    """The same after the pass."""

    @property
    def wall(self) -> int:
        """The duration of the pass, including the wait for the device."""
        return self.end - self.begin

    @property
    def thread(self) -> int:
        """CPU time of the thread that ran the model, during the pass."""
        return self.thread_end - self.thread_begin


UNDISTURBED = 0.01
"""A pass is undisturbed if threads of this process waited for a processor for at most this share of it."""
BUSY = 0.02
"""The machine is busy if they waited longer than this share of all passes."""
_OTHER_THREADS = 0.02
"""Passes are single-threaded if other threads used at most this share of the CPU time."""
_READS_NS = 20_000
"""The most CPU time per pass between reading the time of the process and that of the thread."""


def undisturbed(clock: PassClock) -> bool:
    """Whether threads of this process hardly waited for a processor during the pass; True if that is unknown."""
    return clock.waited is None or clock.waited <= UNDISTURBED * clock.wall


def waiting_share(clocks: Sequence[PassClock]) -> float | None:
    """The share of the passes in which threads of this process waited for a processor; None if unknown."""
    waited = [clock.waited for clock in clocks if clock.waited is not None]
    wall = sum(clock.wall for clock in clocks)
    return sum(waited) / wall if wall and len(waited) == len(clocks) else None


def single_threaded(clocks: Sequence[PassClock]) -> bool:
    """Whether the thread that ran the model used almost all CPU time of the process."""
    others = sum(clock.process - clock.thread - _READS_NS for clock in clocks)
    return others <= _OTHER_THREADS * sum(clock.process for clock in clocks)


class Bench:
    """A model that is ready to run repeatedly until the context ends.

    `run` runs one whole pass, `forward` only its forward part; `tidy` clears gradients after a pass and is not timed.
    """

    def __init__(
        self,
        device: torch.device,
        run: Callable[[], None],
        forward: Callable[[], object],
        tidy: Callable[[], None],
        waiting: ProcessorWait,
        marked: MarkedModules,
    ) -> None:
        self.device, self.run = device, run
        self.marked = marked
        """The scripted modules among the model's, for clocks of the calls inside them."""
        self._forward, self._tidy, self._waiting = forward, tidy, waiting
        self._wait = synchronizer(device)

    def clock(self) -> PassClock:
        """The times of one pass."""
        return self._clocked(self.run)

    def warm(self, passes: int) -> None:
        """Run `passes` passes and discard their times."""
        for _ in range(passes):
            self.clock()

    def warm_up(self, budget: Budget) -> None:
        """Run the warm-up passes of a budget; only one if it takes longer than the budget allows for all passes."""
        for _ in range(budget.warmup):
            wall = self.clock().wall
            budget.on_repeat()
            if wall > budget.seconds * 1e9 > 0:
                return

    def repeat(self, budget: Budget) -> list[PassClock]:
        """The times of bare passes, after a warm-up."""
        self.warm_up(budget)
        return self._repeated(budget, self.run)

    def repeat_bursts(self, budget: Budget) -> list[float]:
        """Nanoseconds per pass in bursts without waits in between, so that launches overlap with running kernels.

        The model's Python state is restored after each burst: after each pass, it could take longer than the pass.
        """
        count = max(1, round(_BURST_NS / max(min(self.clock().wall for _ in range(3)), 1)))

        def burst() -> None:
            for _ in range(count):
                self.run()

        return [each.wall / count for each in self._repeated(budget, burst)]

    def repeat_forward(self, budget: Budget) -> list[PassClock]:
        """The times of only the forward part of a pass, with autograd on or off as in the pass."""
        return self._repeated(budget, self._forward)

    def _repeated(self, budget: Budget, run: Callable[[], object]) -> list[PassClock]:
        clocks: list[PassClock] = []

        def measure() -> int:
            clocks.append(self._clocked(run))
            return clocks[-1].wall

        repeat_until(budget, measure, lambda: halves_agree([np.array([each.wall]) for each in clocks], [()]))
        return clocks

    def _clocked(self, run: Callable[[], object]) -> PassClock:
        clock = clocked(run, self._wait, self._waiting)
        self._tidy()
        return clock


def clocked(run: Callable[[], object], wait: Callable[[], None], waiting: ProcessorWait) -> PassClock:
    """The times of one `run`; `wait` waits for the device."""
    wait()
    # A thread whose time slice has ended loses its processor in one of these system calls, and not in the pass.
    waiting.refresh()
    process, before, thread_begin = time.process_time_ns(), waiting.read(), processor_now()
    begin = now()
    run()
    returned = now()
    wait()
    end = now()
    thread_end, after, process = processor_now(), waiting.read(), time.process_time_ns() - process
    waited = None
    if before is not None and after is not None:
        # What this thread waited in the system calls around the pass does not count.
        absent = max(end - begin - (thread_end - thread_begin), 0)
        waited = min(after.own - before.own, absent) + after.others - before.others
    return PassClock(begin, returned, end, waited, process, thread_begin, thread_end)


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
        with (
            values_restored(restored),
            restored_state(members.modules) as restore,
            garbage_collection_paused(),
            ProcessorWait() as waiting,
        ):
            yield _bench(model, inputs, placed, setting, restore, waiting)


def repeat_until(budget: Budget, measure: Callable[[], int], settled: Callable[[], bool]) -> None:
    """Call `measure`, which returns nanoseconds, until its results have settled or the budget is spent."""
    spent = 0
    for done in range(budget.most):
        if done >= budget.least and (spent >= budget.seconds * 1e9 or (done % _CHECKED == 0 and settled())):
            return
        if done and budget.seconds and spent >= 2 * budget.seconds * 1e9:
            return
        spent += measure()
        budget.on_repeat()


def _bench(
    model: nn.Module,
    inputs: tuple[tuple[Any, ...], dict[str, Any]],
    placed: Sequence[torch.Tensor],
    setting: PassSettings,
    restore: Callable[[], None],
    waiting: ProcessorWait,
) -> Bench:
    args, kwargs = inputs
    device = device_of([*placed, *tensors_among(inputs)])
    marked = MarkedModules(inventory.members(model).modules)

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
        return Bench(device, step, forward, clear, waiting, marked)
    return Bench(device, inference, inference, restore, waiting, marked)


def _own(tensor: torch.Tensor) -> torch.Tensor:
    """A copy that passes may write into, so that the user's tensor stays unchanged."""
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)
