"""How long the kernels of each operation run on an accelerator, from a trace in which every operation is labelled.

Events around operations would hold the gaps between launches too, which are the host's doing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from assay.document.rows import Op, OpKind
from assay.document.trace_labels import encode_path
from assay.errors import ReadError
from assay.timing.op_clock import BODIES
from assay.trace.read.reading import read_trace
from assay.trace.write.plan import CapturePlan
from assay.trace.write.profiler import ProfilerSession


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
        numbers = iter(range(self._count))
        return [None if kinds[op.kind].target in BODIES else self._spent.get(str(next(numbers)), 0) for op in ops]
