"""`with assay.capture(model)`: one trace of everything inside the block, for code that cannot be decorated."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from assay.api.arguments import check_text, path_of
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
    """Capture a `with` block (forward, backward, optimizer step, …) as one Chrome trace labelled by layer.

    Args:
        model: The module whose layers are labelled in the trace.
        dir: The directory to write the trace to. None uses the directory of `assay run`, or `traces`.
        model_name: The name used in the file name. None uses the class name of the model.
        record_shapes: Record the shapes of op inputs.
        profile_memory: Record memory allocations.
        gzip: Compress the trace file.
        show: Print the table of layers on stderr. None prints it only under `assay run`.
        profiler_kwargs: Further options of `torch.profiler.profile`, such as `with_stack=True`.

    Returns:
        A context manager. After the block, `path` is the trace file and `layers` are the times per layer. If the
        trace could not be captured or written, the block still runs normally, and `problem` holds the reason.

    Raises:
        UsageError: `model` is not a `torch.nn.Module`, or an option is not valid.
    """
    from torch import nn

    from assay.api.capture.console import console, silent
    from assay.trace.write.block import BlockCapture
    from assay.trace.write.plan import check_options

    if not isinstance(model, nn.Module):
        raise UsageError(f"cannot capture {model!r:.80}: expected a torch.nn.Module")
    check_text("model_name", model_name, "Net", optional=True)
    check_options(profiler_kwargs)
    defaults = environment.capture_plan()
    plan = replace(
        defaults,
        directory=path_of("dir", dir).absolute() if dir is not None else defaults.directory,
        model_name=model_name,
        record_shapes=record_shapes,
        profile_memory=profile_memory,
        options=profiler_kwargs,
        gzip=gzip or defaults.gzip,
    )
    shown = environment.is_on(environment.CAPTURE) if show is None else show
    return BlockCapture(model, plan, console() if shown else silent())
