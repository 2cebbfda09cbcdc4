"""Profilers that are not ours: a process has room for one, and the second ends in a crash inside torch.

While this watch is in place, a profiler that the user starts is known from its preparation (a schedule's
warm-up too) to its end, and one that starts in the middle of our own recording makes ours give way.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd import profiler as autograd_profiler

from assay.recorder.intercept import Method, observing
from assay.recorder.shared import Shared


class ForeignProfilers:
    """Knows which profilers of other people are prepared or running in this process."""

    def __init__(self) -> None:
        self._others: weakref.WeakSet[Any] = weakref.WeakSet()
        self._own: int | None = None
        self.watching = Shared(self._watching)
        """A context in which profilers are noticed."""
        self.give_way: Callable[[], None] = lambda: None
        """Called before another profiler prepares."""

    def busy(self) -> bool:
        """Whether somebody else's profiler is prepared or running, on whatever thread."""
        return bool(
            self._others
            or torch.autograd._profiler_enabled()
            or getattr(autograd_profiler, "_is_profiler_enabled", False)
        )

    @contextmanager
    def ours(self, profile: Any) -> Iterator[None]:
        """`profile` may prepare inside without being taken for somebody else's."""
        self._own = id(profile)
        try:
            yield
        finally:
            self._own = None

    @contextmanager
    def _watching(self) -> Iterator[None]:
        cls = autograd_profiler.profile
        self._others.update(_prepared_before())
        with observing(self._noting, cls, "_prepare_trace"), observing(self._forgetting, cls, "__exit__"):
            yield
        self._others.clear()

    def _noting(self, original: Method, replaced: Sequence[Method]) -> Method:
        def _prepare_trace(profile: Any) -> Any:
            if replaced:
                return replaced[0](profile)
            if id(profile) != self._own:
                self._others.add(profile)
                self.give_way()
            return original(profile)

        return _prepare_trace

    def _forgetting(self, original: Method, replaced: Sequence[Method]) -> Method:
        def __exit__(profile: Any, *exc_info: Any) -> Any:
            if replaced:
                return replaced[0](profile, *exc_info)
            try:
                return original(profile, *exc_info)
            finally:
                self._others.discard(profile)

        return __exit__


def _prepared_before() -> list[Any]:
    """Profilers that wait in a warm-up begun before the watch; looked for only where torch knows of a schedule."""
    tracker = getattr(autograd_profiler, "KinetoStepTracker", None)
    if not getattr(tracker, "_step_dict", None):
        return []
    cls = autograd_profiler.profile
    # By type: some objects run code of their own when isinstance asks them.
    found = (thing for thing in gc.get_objects() if issubclass(type(thing), cls))
    return [profile for profile in found if getattr(profile, "entered", False) and profile.kineto_results is None]
