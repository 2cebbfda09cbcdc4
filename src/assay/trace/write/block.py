"""A capture of everything inside a `with` block: forward, backward and the optimizer's step in one trace."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import TracebackType

from torch import nn

from assay.recorder.intercept import observing
from assay.trace.write import capturing, current, profiler
from assay.trace.write.instances import Instances
from assay.trace.write.plan import CapturedPass, CaptureLog, CapturePlan, LayerTime

_instances = Instances()
_BUSY = "another capture is running just now: this block runs without one"


class BlockCapture:
    """One captured `with` block; after it, what was captured."""

    def __init__(self, model: nn.Module, plan: CapturePlan, teller: CaptureLog) -> None:
        self._model, self._plan, self._teller = model, plan, teller
        self._capture: capturing.Capturing | None = None
        self._stack = contextlib.ExitStack()
        self.captured: CapturedPass | None = None
        """Everything known about the capture; None before the end of the block and where nothing was captured."""
        self.problem: str | None = None
        """Why there is no trace; None where there is one."""

    @property
    def path(self) -> Path | None:
        """The trace that was written."""
        return self.captured.path if self.captured is not None else None

    @property
    def layers(self) -> tuple[LayerTime, ...]:
        """The layers that were called, with their times on the CPU."""
        return self.captured.layers if self.captured is not None else ()

    def table(self) -> str:
        """The table of layers as text; empty where nothing was captured."""
        return self._teller.table(self.captured) if self.captured is not None else ""

    def __enter__(self) -> BlockCapture:
        instance = _instances.of(self._model, self._plan.model_name or type(self._model).__name__)
        instance.passes += 1
        if not profiler.turn.acquire(blocking=False):
            self.problem = _BUSY
            self._teller.debug(_BUSY)
            return self
        self._stack.enter_context(profiler.watch.watching)
        if self._plan.options.get("with_stack"):
            profiler.prime(stacks=True)
        self._stack.enter_context(observing(current.captured))
        self._capture = capturing.begin(self._model, self._plan, instance, self._teller, covers="block")
        if self._capture is None:
            self.problem = "torch's profiler did not start"
            self._stack.close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._capture is None:
            return
        try:
            self.captured = self._capture.finish(error)
            self.problem = self.captured.problem
        finally:
            self._capture = None
            self._stack.close()
        self._teller.passed(self.captured)
