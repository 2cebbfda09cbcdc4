"""The calls that are running now, innermost last, in each thread; shared by all recordings."""

from __future__ import annotations

import threading
from typing import Any

from torch import nn

from assay.forward_stats.device_clock import CallClock
from assay.forward_stats.results import ForwardStats


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


_threads = _Threads()


def running() -> list[OpenCall]:
    """The calls of this thread."""
    return _threads.running


def path_below(outer: OpenCall, module: nn.Module) -> str | None:
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
