"""The observer of module calls while anyone records, and the calls that are running now in each thread.

Whether a module is recorded, and by whom, stands in the list on the module itself, so that replicas of it that
data parallelism makes are seen and copies are not.
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
    """A call that has not ended."""

    __slots__ = ("added_ns", "calls", "children_ns", "clock", "module", "record", "recording")

    def __init__(self, recording: Any, module: nn.Module, record: ForwardStats, clock: CallClock | None) -> None:
        self.recording = recording
        self.module = module
        self.record = record
        self.clock = clock
        self.added_ns = 0
        """What recording took inside the call."""
        self.children_ns = 0
        self.calls = 0


class _Threads(threading.local):
    def __init__(self) -> None:
        self.running: list[OpenCall] = []
        """The calls that are running now, innermost last; shared by all recordings."""


_threads = _Threads()


def running() -> list[OpenCall]:
    """The calls of this thread."""
    return _threads.running


def recorded(original: Method, replaced: Sequence[Method]) -> Method:
    """`original`, recorded for modules that have a recorder, in whatever thread."""
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
    """The list of a module that the running one made and keeps, as lazy models do; None for any other."""
    stack = running()
    path = _path_below(stack[-1], module) if stack else None
    return None if path is None else stack[-1].recording.adopt(path, module)


def _path_below(outer: OpenCall, module: nn.Module) -> str | None:
    """The path of a module that the running one has come to hold, itself or in a list; None for a stranger."""
    prefix = f"{outer.record.module_path}." if outer.record.module_path else ""
    for name, child in outer.module._modules.items():
        if child is module:
            return f"{prefix}{name}"
        if isinstance(child, (nn.ModuleList, nn.ModuleDict, nn.Sequential)):
            for below, item in child._modules.items():
                if item is module:
                    return f"{prefix}{name}.{below}"
    return None
