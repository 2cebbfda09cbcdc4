"""The capture that runs now, and the observer that shows it module calls.

Code that torch compiles, scripts or exports sees the plain method.
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
    """The capture that runs now; a process has one at most."""

    labelling: Labelling | None = None
    gate: Gate | None = None
    """Decides about calls outside any capture; None leaves them alone."""


running = ActiveCapture()


def captured(original: Method, replaced: Sequence[Method]) -> Method:
    """`original` as a capture sees it: labelled inside one, else as the gate decides."""
    is_compiling = torch.compiler.is_compiling

    def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():  # a compiler that reads this must see nothing of ours
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
    """Where a wrapper whose own call is captured keeps the model: replicas and compiled code hide the inner call."""
    if issubclass(cls, nn.DataParallel):
        return REPLICATED
    if cls.__name__ == "OptimizedModule" and cls.__module__ == "torch._dynamo.eval_frame":
        return "_orig_mod"
    return None


def _forget_parent() -> None:
    """A forked child is not captured by its parent's capture."""
    running.labelling = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent)
