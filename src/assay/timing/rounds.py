"""Rounds of passes: one bare, one with clocked modules, one with clocked ops, and a yardstick beside them.

The kinds of pass alternate, so that a machine that slows down slows all of them. Pass times come from passes in which
nothing is clocked, and the overhead of the clocks is known.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from assay.recorder import higher_order, inventory
from assay.recorder.dispatch import below_autograd
from assay.recorder.inventory import tensors_among
from assay.recorder.watch import Pass, PassSettings, record_pass
from assay.timing.bench import BUSY, Bench, Budget, PassClock, repeat_until, single_threaded, waiting_share
from assay.timing.device import device_of, now, processor_now, synchronizer
from assay.timing.module_clock import CallEvents, ModuleClock
from assay.timing.op_clock import OpClock, OpKernels, OpMode, TimedOp
from assay.timing.segments import Vector, halves_agree

_YARDSTICK = 1 << 14
"""Elements: half of what torch gives to one thread."""
_REPEATS = 200


class ClockedPass(NamedTuple):
    """A pass with clocked modules, and with clocked ops if `ops` is not empty."""

    clock: PassClock
    events: CallEvents
    by_processor: bool = False
    """Whether modules were clocked by the CPU time of the thread instead of the time that passed."""
    ops: list[TimedOp] = []  # noqa: RUF012  never modified
    op_segments: list[int] = []  # noqa: RUF012  never modified
    """The segment of `events` in which each op ran."""

    @property
    def durations(self) -> Vector:
        """The nanoseconds of each segment: before the first event, between events, and until the model returned."""
        clock = self.clock
        first, last = (clock.thread_begin, clock.thread_end) if self.by_processor else (clock.begin, clock.returned)
        return np.diff([first, *self.events.times_ns, last]).astype(float)

    @property
    def sequence(self) -> tuple[Any, ...]:
        """What happened in which order; passes are comparable if theirs is the same."""
        return (self.by_processor, self.events.modules, *(op.func for op in self.ops))


@dataclass
class Rounds:
    """The passes of all rounds, in the order in which they ran."""

    device: str
    bare: list[PassClock] = field(default_factory=list)
    modules: list[ClockedPass] = field(default_factory=list)
    """Passes with clocked modules."""
    processor: list[ClockedPass] = field(default_factory=list)
    """Passes with modules clocked by CPU time: single-threaded ones on a busy machine."""
    ops: list[ClockedPass] = field(default_factory=list)
    """Passes with clocked ops; empty on an accelerator."""
    yardstick: list[int] = field(default_factory=list)
    """Nanoseconds of the same piece of work in every round; empty on an accelerator."""


def clock_rounds(test_bench: Bench, index: Mapping[int, int], budget: Budget) -> Rounds:
    """Rounds of passes until the times of the pass and its slowest modules have settled.

    `index` maps `id(module)` to the module's row. Ops are clocked on the CPU only.
    """
    test_bench.warm_up(budget)
    rounds = Rounds(str(test_bench.device))
    on_cpu = test_bench.device.type == "cpu"
    yardstick = _yardstick()

    def measure() -> int:
        begin = now()
        if on_cpu:
            rounds.yardstick.append(yardstick())
        rounds.bare.append(test_bench.clock())
        if on_cpu and (waiting_share(rounds.bare) or 0.0) > BUSY and single_threaded(rounds.bare):
            rounds.processor.append(_with_modules(test_bench, index, by_processor=True))
        rounds.modules.append(_with_modules(test_bench, index))
        if on_cpu:
            rounds.ops.append(_with_ops(test_bench, index))
        return now() - begin

    def settled() -> bool:
        alike = comparable(rounds.processor or rounds.modules)
        return halves_agree([each.durations for each in alike], alike[0].events.chains())

    repeat_until(budget, measure, settled)
    return rounds


def comparable(passes: Sequence[ClockedPass]) -> list[ClockedPass]:
    """The passes with the most frequent sequence of events: control flow may depend on data or chance."""
    if not passes:
        return []
    most, _ = Counter(each.sequence for each in passes).most_common(1)[0]
    return [each for each in passes if each.sequence == most]


def _with_modules(test_bench: Bench, index: Mapping[int, int], *, by_processor: bool = False) -> ClockedPass:
    clock = ModuleClock(processor_now) if by_processor else ModuleClock()
    with clock:
        took = test_bench.clock()
    return ClockedPass(took, clock.events(index), by_processor)


def _with_ops(test_bench: Bench, index: Mapping[int, int]) -> ClockedPass:
    clock = ModuleClock()
    op_clock = OpClock(clock.marks)
    # TorchScript runs the graphs that the recorder runs, so that its ops are those of the document.
    with _undecomposed(), clock, test_bench.marked.listening(_Silent()), OpMode(op_clock.call):
        took = test_bench.clock()
    ops = op_clock.ops()
    segments = clock.segments_at([op.position for op in ops])
    return ClockedPass(took, clock.events(index), ops=ops, op_segments=segments)


class _Silent:
    """Ignores the calls inside TorchScript: stamping them would slow the ops between them."""

    def begin(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        pass

    def end(self, result: tuple[Any, ...]) -> None:
        pass


@contextlib.contextmanager
def _undecomposed() -> Iterator[None]:
    """Run ops as the recorder sees them: not compiled, and composite ops not decomposed by autograd."""
    with higher_order.eager(), below_autograd():
        yield


def _yardstick() -> Callable[[], int]:
    """A function that times the same piece of work: if it slows down, so does the machine.

    It is too small for several threads, which would still spin while the next pass is timed.
    """
    values = torch.full((_YARDSTICK,), 0.5)
    into = torch.empty_like(values)

    def run() -> int:
        begin = now()
        for _ in range(_REPEATS):
            torch.mul(values, values, out=into)
        return now() - begin

    return run


class TimedPass(NamedTuple):
    """A recorded pass and the times of its ops in every repetition."""

    shown: Pass
    times: list[list[int | None]]
    """One list per repetition, in the order of `shown.ops`."""
    whole: list[int]
    kernels: Sequence[int | None] = ()
    """The number of kernels of each op of `shown.ops`; empty on a CPU."""


def clock_recorded_ops(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], setting: PassSettings, budget: Budget
) -> TimedPass:
    """The ops of a recorded pass with their times over several passes; passes with other ops are skipped.

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
    kernels: list[int | None] = []

    def once() -> int:
        nonlocal first, kernels
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
            if isinstance(clock, OpKernels):
                kernels = clock.kernels(shown.kinds, shown.ops)
        return now() - begin

    for _ in range(min(budget.warmup, 1)):
        once()
    times.clear()
    whole.clear()
    repeat_until(budget, once, lambda: halves_agree([np.array([each], float) for each in whole], [()]))
    assert first is not None
    return TimedPass(first, times, whole, kernels)
