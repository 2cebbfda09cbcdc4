"""`nn.Module.__call__` while captures may run: which calls are captured, and the labels inside one.

The method is replaced on `nn.Module` alone and only while somebody captures: no instance, class attribute or
name of the user's changes. Code that torch compiles, scripts or exports sees the plain method.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from assay.trace.write.labelling import REPLICATED, Labelling

Gate = Callable[[nn.Module, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


class ActiveCapture:
    """The capture that runs now; a process has one at most."""

    labelling: Labelling | None = None


running = ActiveCapture()
_lock = threading.RLock()
_users = 0
_original: Callable[..., Any] | None = None
_gate: Gate | None = None


def install() -> None:
    """See module calls from now on; each call wants one `uninstall`."""
    global _users, _original
    with _lock:
        _users += 1
        if _users == 1 and _original is None:
            _original = nn.Module.__call__
            nn.Module.__call__ = watched(_original)


def uninstall() -> None:
    """Put `nn.Module.__call__` back when nobody captures any more, unless somebody replaced ours meanwhile."""
    global _users, _original
    with _lock:
        _users -= 1
        if _users == 0 and getattr(nn.Module.__call__, "__wrapped__", None) is _original:
            nn.Module.__call__ = _original
            _original = None


def set_gate(gate: Gate | None) -> None:
    """What decides about calls outside any capture; None leaves them alone."""
    global _gate
    _gate = gate


def watched(original: Callable[..., Any]) -> Callable[..., Any]:
    """`original` as a capture sees it: labelled inside one, else as the gate decides."""
    is_compiling = torch.compiler.is_compiling

    # A profiler that records stacks reads the local called `self` of this method's frames, and crashes without it.
    @functools.wraps(original)
    def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():  # a compiler that reads this must see nothing of ours
            return original(self, *args, **kwargs)
        labelling = running.labelling
        if labelling is not None:
            return labelling.call(self, original, args, kwargs, _gate)
        if _gate is not None:
            return _gate(self, original, args, kwargs)
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
