"""Captures everything inside a `with` block in one trace: forward, backward and the optimizer step."""

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
_BUSY = "another capture is running: this block is not traced"


class BlockCapture:
    """Captures one `with` block; afterwards it has the results."""

    def __init__(self, model: nn.Module, plan: CapturePlan, log: CaptureLog) -> None:
        self._model, self._plan, self._log = model, plan, log
        self._capture: capturing.Capturing | None = None
        self._stack = contextlib.ExitStack()
        self.captured: CapturedPass | None = None
        """The captured pass; None before the end of the block and if nothing was captured."""
        self.problem: str | None = None
        """Why no trace was written; None if one was."""

    @property
    def path(self) -> Path | None:
        """The path of the trace; None if no trace was written."""
        return self.captured.path if self.captured is not None else None

    @property
    def layers(self) -> tuple[LayerTime, ...]:
        """The layers that were called, with their CPU times."""
        return self.captured.layers if self.captured is not None else ()

    def table(self) -> str:
        """The table of layers as text; empty if nothing was captured."""
        return self._log.table(self.captured) if self.captured is not None else ""

    def __enter__(self) -> BlockCapture:
        instance = _instances.of(self._model, self._plan.model_name or type(self._model).__name__)
        instance.passes += 1
        if not profiler.turn.acquire(blocking=False):
            self.problem = _BUSY
            self._log.debug(_BUSY)
            return self
        self._stack.enter_context(profiler.watch.watching)
        if self._plan.options.get("with_stack"):
            profiler.prime(stacks=True)
        self._stack.enter_context(observing(current.captured))
        self._capture = capturing.begin(self._model, self._plan, instance, self._log, covers="block")
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
        self._log.passed(self.captured)
