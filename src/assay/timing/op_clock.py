"""Callers that run each op of a pass: to time it, or to keep it for replay; and a dispatch mode that only calls them.

On an accelerator the times are kernel times, from a trace in which every op is labelled: CUDA events around ops would
include the gaps between launches, which are caused by the host.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from assay.document.rows import Op, OpKind
from assay.document.trace_labels import encode_path
from assay.errors import ReadError
from assay.recorder import higher_order
from assay.recorder.dispatch import QUERIES
from assay.recorder.watch import OpCaller
from assay.timing.device import now, processor_now
from assay.timing.tensor_copies import copied
from assay.trace.read.reading import read_trace
from assay.trace.write.plan import CapturePlan
from assay.trace.write.profiler import ProfilerSession

BODIES = frozenset(f"higher_order.{name}" for name in higher_order.BODY_OPERATORS)
"""Higher-order operators without work of their own; the ops of their bodies are timed instead."""


_STAMPS = 200


class OpMode(TorchDispatchMode):  # type: ignore[misc]
    """Runs every op with `caller`, below autograd, as the recorder does, but records nothing."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Called by torch; True would import the compiler, which takes seconds, and wrap every op."""
        return False

    def __init__(self, caller: OpCaller) -> None:
        super().__init__()
        higher_order.register(OpMode)
        self._call = caller

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in QUERIES:
            return func(*args, **(kwargs or {}))
        if func.__class__ is not torch._ops.OpOverload and func.name() in higher_order.BODY_OPERATORS:
            with self:
                return higher_order.BODY_OPERATORS[func.name()](*args, **(kwargs or {}))
        return self._call(func, args, kwargs or {})


class TimedOp(NamedTuple):
    """One op of a clocked pass."""

    func: Any
    position: int
    """The number of marks that the module clock had made when the op ran."""
    wall_ns: int
    processor_ns: int
    """CPU time of the calling thread."""


class OpClock:
    """Calls ops and times each by the CPU's clock; `marks` are those of a module clock that runs at the same time."""

    def __init__(self, marks: Sequence[object] = ()) -> None:
        self._marks = marks
        self._stamps: list[tuple[Any, int, int, int, int, int]] = []

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The op's result."""
        processor = processor_now()
        begin = now()
        result = func(*args, **kwargs)
        end = now()
        self._stamps.append((func, len(self._marks), begin, end, processor, processor_now()))
        return result

    def ops(self) -> list[TimedOp]:
        """The ops since the last call of `ops`."""
        stamps, self._stamps = self._stamps, []
        return [
            TimedOp(func, position, end - begin, processor_end - processor)
            for func, position, begin, end, processor, processor_end in stamps
        ]

    def times_ns(self, kinds: Sequence[OpKind], ops: Sequence[Op]) -> list[int | None]:
        """The time of each op in the order of `ops`; None for higher-order operators (see `BODIES`)."""
        return _assigned((op.wall_ns for op in self.ops()), kinds, ops)


def stamp_cost_ns() -> int:
    """The CPU time that `OpClock` adds to each op's own."""
    clock = OpClock()
    for _ in range(_STAMPS):
        clock.call(_nothing, (), {})
    return min(op.processor_ns for op in clock.ops())


def _nothing() -> None:
    return None


class OpKernels:
    """Calls and labels ops while a trace is recorded; on exit, reads the kernel times of each op from the trace."""

    def __init__(self) -> None:
        self._count = 0
        self._spent: dict[str, int] = {}
        self._kernels: dict[str, int] = {}

    def __enter__(self) -> OpKernels:
        plan = CapturePlan(Path(), record_shapes=False, profile_memory=False)
        self._recording = ProfilerSession(plan, all_threads=False)
        return self

    def __exit__(self, *raised: object) -> None:
        self._recording.abandon()
        if raised[0] is not None:
            return
        if self._recording.lost is not None:
            raise ReadError(f"device times of ops could not be measured: {self._recording.lost}")
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "operations.json")
            self._recording.export(path)
            layers = read_trace(path).layers
        self._spent = {layer.name: layer.gpu_total_ns or 0 for layer in layers}
        self._kernels = {layer.name: layer.kernels or 0 for layer in layers}

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The op's result."""
        label = torch._C._profiler._RecordFunctionFast(encode_path(str(self._count)))
        self._count += 1
        with label:
            return func(*args, **kwargs)

    def times_ns(self, kinds: Sequence[OpKind], ops: Sequence[Op]) -> list[int | None]:
        """The kernel time of each op in the order of `ops`; None for higher-order operators (see `BODIES`)."""
        return _assigned((self._spent.get(str(number), 0) for number in range(self._count)), kinds, ops)

    def kernels(self, kinds: Sequence[OpKind], ops: Sequence[Op]) -> list[int | None]:
        """The number of kernels of each op in the order of `ops`; None for higher-order operators (see `BODIES`)."""
        return _assigned((self._kernels.get(str(number), 0) for number in range(self._count)), kinds, ops)


class OpKeeper:
    """Calls ops and keeps those with the given numbers (counted as in `OpClock`), so that each can be replayed."""

    def __init__(self, numbers: Collection[int]) -> None:
        self.kept: dict[int, Callable[[], object]] = {}
        """A function per kept op that runs it again on copies of its inputs, which share storages as they do."""
        self._numbers = frozenset(numbers)
        self._count = 0

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The op's result."""
        if self._count in self._numbers:
            args_kept, kwargs_kept = copied((args, kwargs))
            self.kept[self._count] = partial(func, *args_kept, **kwargs_kept)
        self._count += 1
        return func(*args, **kwargs)


def _assigned(amounts: Iterable[int], kinds: Sequence[OpKind], ops: Sequence[Op]) -> list[int | None]:
    """`amounts` assigned to `ops` in order, with None for higher-order operators."""
    rest = iter(amounts)
    return [None if kinds[op.kind].target in BODIES else next(rest) for op in ops]
