"""`with assay.capture(model)`: one trace of everything inside, for code that nobody can decorate."""

from __future__ import annotations

import os
from dataclasses import replace
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

    A disk that fails or a profiler that is already running never breaks the block: its `problem` says what happened,
    and its `path` is where the trace is.

    Args:
        model: The module whose layers are labelled.
        dir: Where the trace goes; None is the folder of `assay run`, or `traces`.
        model_name: What the file is named after; the class of the model where left out.
        record_shapes: Keep the shapes of operands.
        profile_memory: Keep allocations.
        gzip: Compress the trace.
        show: Print the table of layers on stderr; None does so under `assay run`.
        profiler_kwargs: Further options of torch's profiler.
    """
    from torch import nn

    from assay.api.capture.console import console, silent
    from assay.trace.write.block import BlockCapture
    from assay.trace.write.plan import check_options

    if not isinstance(model, nn.Module):
        raise UsageError(f"capture got {model!r:.80}: expected a torch.nn.Module")
    check_options(profiler_kwargs)
    around = environment.plan()
    plan = replace(
        around,
        directory=Path(dir).absolute() if dir is not None else around.directory,
        model_name=model_name,
        record_shapes=record_shapes,
        profile_memory=profile_memory,
        options=profiler_kwargs,
        gzip=gzip or around.gzip,
    )
    shown = environment.is_on(environment.CAPTURE) if show is None else show
    return BlockCapture(model, plan, console() if shown else silent())
