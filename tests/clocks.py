"""Clocks that move only when a test moves them, so that no result depends on how busy the machine is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

HANG_S = 600
"""Longest real time to wait for another thread or process: reached only if it hangs."""


class ManualClock:
    """A nanosecond clock that only moves when `ns` is changed."""

    def __init__(self) -> None:
        self.ns = 0

    def __call__(self) -> int:
        return self.ns


class VirtualTime:
    """Simulated time shared by threads: it advances in `sleep`, and every thread that waits wakes exactly when due.

    `time` and `threading` replace the modules of the same name in the code under test. Only the test's own thread may
    call `sleep`; threads started through `threading` wait for events.
    """

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self._changed = threading.Condition()
        self._running = 0
        self._wakes: dict[int, float] = {}
        self.time = SimpleNamespace(perf_counter=self.perf_counter, sleep=self.sleep)
        self.threading = SimpleNamespace(Event=lambda: _VirtualEvent(self), Thread=self._thread)

    def perf_counter(self) -> float:
        """The current time in seconds."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Advance the time, stopping at every moment at which a waiting thread is due."""
        end = self.now + seconds
        with self._changed:
            self._settle()
            while self._wakes and min(self._wakes.values()) <= end:
                due = min(self._wakes, key=self._wakes.__getitem__)
                self.now = self._wakes.pop(due)
                self._running += 1
                self._changed.notify_all()
                self._settle()
            self.now = end

    def wait(self, event: _VirtualEvent, seconds: float) -> None:
        """Block the calling thread until `seconds` of simulated time have passed or `event` is set."""
        me = threading.get_ident()
        with self._changed:
            if event.is_set():
                return
            self._wakes[me] = self.now + seconds
            self._running -= 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: me not in self._wakes or event.is_set(), HANG_S)
            if self._wakes.pop(me, None) is not None:
                self._running += 1

    def notify(self) -> None:
        """Wake threads whose event was set."""
        with self._changed:
            self._changed.notify_all()

    def _settle(self) -> None:
        """Wait until every other thread waits for an event or has ended."""
        assert self._changed.wait_for(lambda: self._running == 0, HANG_S), "a thread neither waits nor ends"

    def _thread(self, target: Callable[[], None], **options: Any) -> threading.Thread:
        def counted() -> None:
            try:
                target()
            finally:
                with self._changed:
                    self._running -= 1
                    self._changed.notify_all()

        thread = threading.Thread(target=counted, **options)
        start = thread.start

        def started() -> None:
            with self._changed:
                self._running += 1
            start()

        thread.start = started  # type: ignore[method-assign]
        return thread


class _VirtualEvent:
    """An event whose `wait` takes simulated time."""

    def __init__(self, time: VirtualTime) -> None:
        self._time, self._set = time, False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        self._time.notify()

    def wait(self, timeout: float = 0.0) -> bool:
        self._time.wait(self, timeout)
        return self._set
