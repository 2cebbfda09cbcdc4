"""What calls the operations of a recorded pass in the recorder's place: to time each, or to keep some.

On an accelerator the times are those of kernels, from a trace in which every operation is labelled: events around
operations would hold the gaps between launches too, which are the host's doing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from assay.document.rows import Op, OpKind
from assay.document.trace_labels import encode_path
from assay.errors import ReadError
from assay.recorder.higher_order import WITH_BODY
from assay.timing.device import now
from assay.trace.read.reading import read_trace
from assay.trace.write.plan import CapturePlan
from assay.trace.write.profiler import ProfilerSession

BODIES = frozenset(f"higher_order.{name}" for name in WITH_BODY)
"""Operators that are nothing but their bodies, whose operations have times of their own."""


class OpClock:
    """Times the operations it is asked to call, by the processor's clock."""

    def __init__(self) -> None:
        self._spent: list[int] = []

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The operation's result."""
        begin = now()
        result = func(*args, **kwargs)
        self._spent.append(now() - begin)
        return result

    def times_ns(self, kinds: Sequence[OpKind], ops: Sequence[Op]) -> list[int | None]:
        """The time of each operation in the order of `ops`; None for one that is only its body."""
        return _given_out(self._spent, kinds, ops)


class OpKernels:
    """Labels the operations it is asked to call; entered, it records a trace, left, it reads it."""

    def __init__(self) -> None:
        self._count = 0
        self._spent: dict[str, int] = {}

    def __enter__(self) -> OpKernels:
        plan = CapturePlan(Path(), record_shapes=False, profile_memory=False)
        self._recording = ProfilerSession(plan, all_threads=False)
        return self

    def __exit__(self, *raised: object) -> None:
        self._recording.abandon()
        if raised[0] is not None:
            return
        if self._recording.lost is not None:
            raise ReadError(f"operations have no device times: {self._recording.lost}")
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "operations.json")
            self._recording.export(path)
            self._spent = {layer.name: layer.gpu_total_ns or 0 for layer in read_trace(path).layers}

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The operation's result."""
        label = torch._C._profiler._RecordFunctionFast(encode_path(str(self._count)))
        self._count += 1
        with label:
            return func(*args, **kwargs)

    def times_ns(self, kinds: Sequence[OpKind], ops: Sequence[Op]) -> list[int | None]:
        """The time of each operation's kernels in the order of `ops`; None for one that is only its body."""
        return _given_out((self._spent.get(str(number), 0) for number in range(self._count)), kinds, ops)


class OpKeeper:
    """Keeps the operations with these numbers, counted as `OpClock` counts them, to run one again alone."""

    def __init__(self, wanted: Collection[int]) -> None:
        self.kept: dict[int, Callable[[], object]] = {}
        """What runs each again, on copies of its inputs."""
        self._wanted = frozenset(wanted)
        self._count = 0

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The operation's result."""
        if self._count in self._wanted:
            args_kept, kwargs_kept = tree_map_only(torch.Tensor, _copy, (args, kwargs))
            self.kept[self._count] = partial(func, *args_kept, **kwargs_kept)
        self._count += 1
        return func(*args, **kwargs)


def _given_out(times: Iterable[int], kinds: Sequence[OpKind], ops: Sequence[Op]) -> list[int | None]:
    rest = iter(times)
    return [None if kinds[op.kind].target in BODIES else next(rest) for op in ops]


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in the same layout, free of autograd."""
    return tensor.detach().clone(memory_format=torch.preserve_format)
