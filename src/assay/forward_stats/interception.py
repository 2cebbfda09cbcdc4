"""The wrapper of `nn.Module.__call__` that records calls, and the running calls of each thread.

The recorders of a module are stored in the call list on the module itself, so that replicas made by data parallelism
are recorded and copies are not.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from assay.forward_stats.call_list import ATTRIBUTE, CallList
from assay.forward_stats.device_clock import CallClock
from assay.forward_stats.results import ForwardStats
from assay.recorder.intercept import Method


class OpenCall:
    """A running call."""

    __slots__ = ("added_ns", "calls", "children_ns", "clock", "module", "record", "recording")

    def __init__(self, recording: Any, module: nn.Module, record: ForwardStats, clock: CallClock | None) -> None:
        self.recording = recording
        self.module = module
        self.record = record
        self.clock = clock
        self.added_ns = 0
        """Nanoseconds that recording took inside the call."""
        self.children_ns = 0
        """Nanoseconds of the calls directly inside it."""
        self.calls = 0
        """Number of finished calls inside it, at any depth."""


class _Threads(threading.local):
    def __init__(self) -> None:
        self.running: list[OpenCall] = []
        """The running calls of the thread, innermost last, of all recordings."""


_threads = _Threads()


def running() -> list[OpenCall]:
    """The running calls of this thread, innermost last."""
    return _threads.running


def recording_call(original: Method, replaced: Sequence[Method]) -> Method:
    """`original` wrapped so that calls of modules with a recorder are recorded, in any thread."""
    is_compiling = torch.compiler.is_compiling

    def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(self, *args, **kwargs)
        if replaced:
            return replaced[0](self, *args, **kwargs)
        calls = self.__dict__.get(ATTRIBUTE)
        if calls is None:
            calls = _adopted(self)
        if calls.__class__ is not CallList or not calls.recorders:
            return original(self, *args, **kwargs)
        recording, path = calls.recorders[-1]
        return recording.run(path, calls, self, original, args, kwargs)

    return __call__


def _adopted(module: nn.Module) -> CallList | None:
    """A call list for a module that the running module created, as lazy models do; None for any other module."""
    stack = running()
    path = _path_below(stack[-1], module) if stack else None
    return None if path is None else stack[-1].recording.adopt(path, module)


def _path_below(outer: OpenCall, module: nn.Module) -> str | None:
    """The path of a module that is now a child of the running module, directly or in a container; None otherwise."""
    prefix = f"{outer.record.module_path}." if outer.record.module_path else ""
    for name, child in outer.module._modules.items():
        if child is module:
            return f"{prefix}{name}"
        if isinstance(child, (nn.ModuleList, nn.ModuleDict, nn.Sequential)):
            for key, item in child._modules.items():
                if item is module:
                    return f"{prefix}{name}.{key}"
    return None
