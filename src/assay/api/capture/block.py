"""`with assay.capture(model)`: one trace of everything inside, for code that nobody can decorate."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.api.capture import environment
from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.trace.write.block import BlockCapture


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
) -> BlockCapture:
    """A `with` block whose forward, backward and optimizer step become one trace in `dir`, by layers of `model`.

    `show` prints the table of layers on stderr; None does so where the program runs under `assay run`. A disk
    that fails or a profiler that is already running never breaks the block: `problem` says what happened.
    """
    from torch import nn

    from assay.api.capture.console import console, silent
    from assay.trace.write.block import BlockCapture
    from assay.trace.write.plan import CapturePlan, check_options

    if not isinstance(model, nn.Module):
        raise UsageError(f"capture got {model!r:.80}: a torch.nn.Module is wanted")
    check_options(profiler_kwargs)
    around = environment.read()
    plan = CapturePlan(
        directory=Path(dir).absolute() if dir is not None else around.directory,
        model_name=model_name,
        record_shapes=record_shapes,
        profile_memory=profile_memory,
        options=profiler_kwargs,
        gzip=gzip or around.gzip,
        manifest=around.manifest,
    )
    shown = environment.is_on(environment.CAPTURE) if show is None else show
    return BlockCapture(model, plan, console() if shown else silent())
