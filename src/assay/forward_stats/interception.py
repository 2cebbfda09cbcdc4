"""Seeing every call: `nn.Module.__call__` is replaced while anyone records, and put back after the last one.

Whether a module is recorded, and by whom, stands in the list on the module itself, so that replicas of it that
data parallelism makes are seen and copies are not.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from assay.forward_stats.call_list import ATTRIBUTE, CallList
from assay.forward_stats.running import path_below, running

_lock = threading.RLock()
_active = 0
_ours: Any = None
_original: Any = None


def install() -> None:
    """Begin to see calls."""
    global _active, _ours, _original
    with _lock:
        _active += 1
        current = nn.Module.__dict__["__call__"]
        if current is not _ours:
            _original, _ours = current, _watching(current)
            nn.Module.__call__ = _ours


def uninstall() -> None:
    """Stop seeing calls, unless someone else still wants to."""
    global _active, _ours, _original
    with _lock:
        _active -= 1
        # Where another has replaced ours meanwhile, ours lies below and passes everything through.
        if not _active and nn.Module.__dict__["__call__"] is _ours:
            nn.Module.__call__ = _original
            _ours = _original = None


def _watching(original: Callable[..., Any]) -> Callable[..., Any]:
    is_compiling = torch.compiler.is_compiling

    @functools.wraps(original)
    def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:  # torch's profiler reads a local `self`
        if is_compiling():
            return original(self, *args, **kwargs)
        calls = self.__dict__.get(ATTRIBUTE)
        if calls is None:
            calls = _adopted(self)
        if calls.__class__ is not CallList or not calls.recorders:
            return original(self, *args, **kwargs)
        recording, path = calls.recorders[-1]
        return recording.run(path, calls, self, original, args, kwargs)

    return __call__


def _adopted(module: nn.Module) -> CallList | None:
    """The list of a module that the running one made and keeps, as lazy models do; None for any other."""
    stack = running()
    path = path_below(stack[-1], module) if stack else None
    return None if path is None else stack[-1].recording.adopt(path, module)
