"""Detects the user's own profilers: a process can run only one, and a second one crashes inside torch.

While the watch is active, a profiler of the user's is tracked from its preparation (including a schedule's warm-up)
to its end. If one starts during Assay's own recording, Assay's recording ends first.
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
    """Tracks the user's profilers that are prepared or running in this process."""

    def __init__(self) -> None:
        self._others: weakref.WeakSet[Any] = weakref.WeakSet()
        self._own: int | None = None
        self.watching = Shared(self._watching)
        """A context in which profilers are tracked."""
        self.give_way: Callable[[], None] = lambda: None
        """Called before a profiler of the user's is prepared."""

    def busy(self) -> bool:
        """Whether a profiler of the user's is prepared or running on any thread."""
        return bool(
            self._others
            or torch.autograd._profiler_enabled()
            or getattr(autograd_profiler, "_is_profiler_enabled", False)
        )

    @contextmanager
    def ours(self, profile: Any) -> Iterator[None]:
        """A context in which `profile` is recognised as Assay's own when it is prepared."""
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
    """Profilers in a warm-up that began before the watch; searched for only if torch has a schedule."""
    tracker = getattr(autograd_profiler, "KinetoStepTracker", None)
    if not getattr(tracker, "_step_dict", None):
        return []
    cls = autograd_profiler.profile
    # Not isinstance: some objects run their own code when it reads their `__class__`.
    profiles = (candidate for candidate in gc.get_objects() if issubclass(type(candidate), cls))
    return [profile for profile in profiles if getattr(profile, "entered", False) and profile.kineto_results is None]
