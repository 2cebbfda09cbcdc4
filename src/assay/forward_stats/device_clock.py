"""The accelerator's clock: events around calls and around what recording adds, read after one wait.

A call's time is what passed between its events, less what recording added inside it. Where the model lies on
several accelerators, or on none, there is no such time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from assay.recorder.inventory import entries


class DeviceClock:
    """The events of all calls that have not been read yet."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._unread: list[CallClock] = []
        self._free: list[Any] = []
        """Events that have been read: making one takes longer than recording it."""
        self._lock = threading.RLock()

    def begin(self, parent: CallClock | None) -> CallClock | None:
        """A clock for a call that is about to be described; None while a graph is being captured."""
        if torch.cuda.is_current_stream_capturing():
            return None
        clock = CallClock(self, parent)
        clock.mark()
        return clock

    def mark(self) -> Any:
        """An event on the stream that is current now."""
        event = self._free.pop() if self._free else torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def ended(self, clock: CallClock) -> None:
        """Note a call that is over; calls end before the ones around them."""
        self._unread.append(clock)

    def resolve(self) -> None:
        """Wait for the last event and read all clocks."""
        with self._lock:
            taken, self._unread = self._unread, []
            for clock in taken:
                self._free += clock.settle()


class CallClock:
    """Four events of one call: described, begun, ended, described again."""

    __slots__ = ("_added_ms", "_children_ms", "_clock", "_events", "_parent", "_times")

    def __init__(self, clock: DeviceClock, parent: CallClock | None) -> None:
        self._clock: DeviceClock | None = clock
        self._parent = parent
        self._events: list[Any] = []
        self._added_ms = 0.0
        """What recording added inside the call."""
        self._children_ms = 0.0
        self._times: tuple[float | None, float | None] = (None, None)

    def mark(self) -> None:
        """Take the next of the four events."""
        if self._clock is not None:
            self._events.append(self._clock.mark())

    def end(self) -> None:
        """Take the last event; from now on the clock can be read."""
        self.mark()
        if self._clock is not None:
            self._clock.ended(self)

    def read(self) -> tuple[float | None, float | None]:
        """Seconds in all and without the calls inside; waits for the device the first time."""
        if self._clock is not None:
            self._clock.resolve()
        return self._times

    def settle(self) -> list[Any]:
        """Turn the events into times, tell the call around this one, and give the events back."""
        events, parent = self._events, self._parent
        self._clock = self._parent = None
        self._events = []
        described, begun, ended, done = events
        try:
            done.synchronize()
            total = begun.elapsed_time(ended) - self._added_ms
            added = described.elapsed_time(begun) + ended.elapsed_time(done) + self._added_ms
        except RuntimeError:  # the device has failed, as the model's own error says
            return []
        self._times = (total / 1e3, (total - self._children_ms) / 1e3)
        if parent is not None:
            parent._children_ms += total
            parent._added_ms += added
        return events


def clock_for(modules: Iterable[nn.Module]) -> DeviceClock | None:
    """A clock for the one CUDA device that the modules' tensors lie on."""
    if not torch.cuda.is_initialized():
        return None
    devices = {tensor.device for module in modules for _, _, tensor in entries(module) if tensor.is_cuda}
    return DeviceClock(devices.pop()) if len(devices) == 1 else None
