"""`with assay.capture(model)`: one trace of everything inside, for code that nobody can decorate."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from assay.api.capture import environment
from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.trace.write.plan import Captured, Layer


class Capture:
    """A block that is captured; after it, what came of it."""

    def __init__(self, block: Any) -> None:
        self._block = block

    def __enter__(self) -> Capture:
        self._block.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        self._block.__exit__(kind, error, frames)

    @property
    def captured(self) -> Captured | None:
        """Everything known about the capture; None before the block's end and where there was none."""
        found: Captured | None = self._block.captured
        return found

    @property
    def path(self) -> Path | None:
        """The trace that was written; None where there is none, and `problem` says why."""
        return self.captured.path if self.captured is not None else None

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers that were called, with their times on the CPU."""
        return self.captured.layers if self.captured is not None else ()

    @property
    def problem(self) -> str | None:
        """Why there is no trace; None where there is one."""
        said: str | None = self._block.problem
        return said

    def table(self) -> str:
        """The table of layers."""
        from assay.api.capture.tables import lines_of
        from assay.views.tables import as_text
        from assay.views.text.layer_table import layer_table

        return as_text(layer_table(lines_of([self.captured]))) if self.captured is not None else ""


def capture(
    model: Any,
    dir: str | os.PathLike[str] | None = None,
    *,
    model_name: str | None = None,
    record_shapes: bool = True,
    profile_memory: bool = True,
    gzip: bool = False,
    show: bool | None = None,
    **profiler_kwargs: Any,
) -> Capture:
    """A `with` block whose forward, backward and optimizer step become one trace in `dir`, by layers of `model`.

    `show` prints the table of layers on stderr; None does so where the program runs under `assay run`. A disk
    that fails or a profiler that is already running never breaks the block: `problem` says what happened.
    """
    from torch import nn

    from assay.api.capture.console import console, silent
    from assay.trace.write.block import Block
    from assay.trace.write.plan import Plan, check_options

    if not isinstance(model, nn.Module):
        raise UsageError(f"capture got {model!r:.80}: a torch.nn.Module is wanted")
    check_options(profiler_kwargs)
    around = environment.read()
    plan = Plan(
        directory=Path(dir).absolute() if dir is not None else around.directory,
        model_name=model_name,
        record_shapes=record_shapes,
        profile_memory=profile_memory,
        options=profiler_kwargs,
        gzip=gzip or around.gzip,
        manifest=around.manifest,
    )
    shown = environment.is_on(environment.CAPTURE) if show is None else show
    return Capture(Block(model, plan, console() if shown else silent()))
