"""Compiling the model with torch.compile."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch

from assay.document.trials import ROUNDING
from assay.trials.change import Change, NotApplicable, register
from assay.trials.changes.dry_pass import DRY_PASS, DRY_PASS_IMPORTS, device_of
from assay.trials.runnable import Runnable


def require_compiler(device: str) -> None:
    """Raise `NotApplicable` if torch.compile fails for the simplest function."""
    try:
        torch.compile(lambda x: x + 1)(torch.ones(8, device=device))
    except (RuntimeError, ImportError, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise NotApplicable(f"torch.compile does not work on this machine: {reason}") from error


def compiled(runnable: Runnable, mode: str) -> Runnable:
    """The model compiled in this mode."""
    if isinstance(runnable.model, torch.jit.ScriptModule):
        raise NotApplicable("a TorchScript model cannot be compiled: use the model it was made from")
    if hasattr(runnable.model, "_orig_mod"):
        raise NotApplicable("the model is compiled already")
    require_compiler(device_of(runnable))
    runnable.model = torch.compile(runnable.model, mode=mode)
    return runnable


def new_step() -> AbstractContextManager[Any]:
    """A context that marks a pass, after which the outputs of the pass before may be overwritten."""
    torch.compiler.cudagraph_mark_step_begin()
    return nullcontext()


new_step.every_pass = True  # type: ignore[attr-defined]


def compile_default(runnable: Runnable) -> Runnable:
    """The compiled model."""
    return compiled(runnable, "default")


def compile_reduce_overhead(runnable: Runnable) -> Runnable:
    """The compiled model, which runs as CUDA graphs."""
    if device_of(runnable) != "cuda":
        raise NotApplicable("reduce-overhead uses CUDA graphs, which require a CUDA device")
    runnable.contexts += (new_step,)
    return compiled(runnable, "reduce-overhead")


def compile_max_autotune(runnable: Runnable) -> Runnable:
    """The compiled model, with the fastest of several kernels for each product."""
    runnable.contexts += (new_step,)
    return compiled(runnable, "max-autotune")


_compiling = partial(
    Change,
    codes=("C203", "C205", "C216"),
    effect=ROUNDING,
    parts=(*DRY_PASS, require_compiler, compiled, new_step),
    imports=(*DRY_PASS_IMPORTS, "from contextlib import nullcontext"),
    stage="compile",
    isolated=True,
)

register(
    _compiling(name="compile", summary="Compile the model with torch.compile", apply=compile_default),
)
register(
    _compiling(
        name="compile_reduce_overhead",
        summary="Compile the model with torch.compile and run it as CUDA graphs (mode reduce-overhead)",
        apply=compile_reduce_overhead,
    )
)
register(
    _compiling(
        name="compile_max_autotune",
        summary="Compile the model with torch.compile and try several kernels for each product (mode max-autotune)",
        apply=compile_max_autotune,
        codes=(),
    )
)
