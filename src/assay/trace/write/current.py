"""The running capture, and the observer that passes module calls to it.

Code that torch compiles, scripts or exports sees the original method.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from assay.recorder.intercept import Method
from assay.trace.write.labelling import REPLICATED, Labelling

Gate = Callable[[nn.Module, Method, tuple[Any, ...], dict[str, Any]], Any]


class ActiveCapture:
    """The running capture; a process has at most one."""

    labelling: Labelling | None = None
    gate: Gate | None = None
    """Called for module calls outside any capture; None leaves them alone."""


running = ActiveCapture()


def captured(original: Method, replaced: Sequence[Method]) -> Method:
    """`original` wrapped so that calls are labelled inside a capture, and passed to the gate outside one."""
    is_compiling = torch.compiler.is_compiling

    def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():  # the compiler must see only the original method
            return original(self, *args, **kwargs)
        if replaced:
            return replaced[0](self, *args, **kwargs)
        labelling = running.labelling
        if labelling is not None:
            lane = labelling.here.lane or labelling.replica_lane(self)
            if lane is not None:
                return lane.call(self, original, args, kwargs)
        gate = running.gate
        if gate is not None:
            return gate(self, original, args, kwargs)
        return original(self, *args, **kwargs)

    return __call__


def inner_attribute(cls: type) -> str | None:
    """The attribute in which a wrapper class keeps its model, if the wrapper is captured in its place; else None.

    Replicas and compiled code hide the call of the model itself.
    """
    if issubclass(cls, nn.DataParallel):
        return REPLICATED
    if cls.__name__ == "OptimizedModule" and cls.__module__ == "torch._dynamo.eval_frame":
        return "_orig_mod"
    return None


def _forget_parent() -> None:
    """Drop the parent's capture in a forked child."""
    running.labelling = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent)
