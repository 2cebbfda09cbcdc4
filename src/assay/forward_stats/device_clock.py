"""Accelerator time of calls: events around each call and around recording, read after a single synchronisation.

A call's time is the time between its events minus the time that recording took inside it. There is no such time if
the model is on several accelerators or on none.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from assay.recorder.inventory import entries


class DeviceClock:
    """Creates the events of calls and reads those of finished calls."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._unread: list[CallClock] = []
        self._free: list[Any] = []
        """Events for reuse: creating an event takes longer than recording it."""
        self._lock = threading.RLock()

    def begin(self, parent: CallClock | None) -> CallClock | None:
        """Start the clock of a call before its inputs are recorded; None while a CUDA graph is being captured."""
        if torch.cuda.is_current_stream_capturing():
            return None
        clock = CallClock(self, parent)
        clock.mark()
        return clock

    def mark(self) -> Any:
        """A new event on the current stream."""
        event = self._free.pop() if self._free else torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def add_finished(self, clock: CallClock) -> None:
        """Add a finished call; a call ends before its enclosing calls."""
        self._unread.append(clock)

    def resolve(self) -> None:
        """Wait for the device and read the clocks of all finished calls."""
        with self._lock:
            clocks, self._unread = self._unread, []
            for clock in clocks:
                self._free += clock.finish()


class CallClock:
    """Four events of one call: before and after recording its inputs, at its end, and after recording its outputs."""

    __slots__ = ("_added_ms", "_children_ms", "_clock", "_events", "_parent", "_times")

    def __init__(self, clock: DeviceClock, parent: CallClock | None) -> None:
        self._clock: DeviceClock | None = clock
        self._parent = parent
        self._events: list[Any] = []
        self._added_ms = 0.0
        """Milliseconds that recording took inside the call."""
        self._children_ms = 0.0
        self._times: tuple[float | None, float | None] = (None, None)

    def mark(self) -> None:
        """Record the next of the four events."""
        if self._clock is not None:
            self._events.append(self._clock.mark())

    def end(self) -> None:
        """Record the last event; from now on the clock can be read."""
        self.mark()
        if self._clock is not None:
            self._clock.add_finished(self)

    def read(self) -> tuple[float | None, float | None]:
        """Seconds with and without the calls inside; None if unknown. The first read waits for the device."""
        if self._clock is not None:
            self._clock.resolve()
        return self._times

    def finish(self) -> list[Any]:
        """Convert the events to times, add them to the enclosing call, and return the events for reuse."""
        events, parent = self._events, self._parent
        self._clock = self._parent = None
        self._events = []
        opened, started, ended, closed = events
        try:
            closed.synchronize()
            total = started.elapsed_time(ended) - self._added_ms
            added = opened.elapsed_time(started) + ended.elapsed_time(closed) + self._added_ms
        except RuntimeError:  # the device has failed; the model's own error reports it
            return []
        self._times = (total / 1e3, (total - self._children_ms) / 1e3)
        if parent is not None:
            parent._children_ms += total
            parent._added_ms += added
        return events


def clock_for(modules: Iterable[nn.Module]) -> DeviceClock | None:
    """A clock for the CUDA device of the modules' tensors; None if they are on several devices or on none."""
    if not torch.cuda.is_initialized():
        return None
    devices = {tensor.device for module in modules for _, _, tensor in entries(module) if tensor.is_cuda}
    return DeviceClock(devices.pop()) if len(devices) == 1 else None
