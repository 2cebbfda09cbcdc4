"""How long each module's calls take, by a clock around `nn.Module.__call__`.

The hot path appends to one list; everything else is worked out after the pass. Calls in other threads and of
modules that forward made itself stay in the time of the module that was running.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from torch import nn

from assay.recorder.intercept import Method, observing
from assay.timing.device import now


class Spent(NamedTuple):
    """One module's time in one pass."""

    calls: int
    total_ns: int
    own_ns: int


class Spans(NamedTuple):
    """A pass as the clock saw it."""

    modules: dict[int, Spent]
    """By the module's index."""
    inside_ns: int
    """The self times together: all that happened inside a module."""
    calls: int


class ModuleClock:
    """Clocks every module call while it is entered, in the thread that entered it."""

    def __init__(self, read: Callable[[], int] = now) -> None:
        self._marks: list[Any] = []
        self._read = read
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> ModuleClock:
        self._owner = threading.get_ident()
        self._stack.enter_context(observing(self._clocked))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _clocked(self, original: Method, replaced: Sequence[Method]) -> Method:
        append = self._marks.append
        read = self._read
        get_ident = threading.get_ident
        owner = self._owner

        def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if replaced:
                return replaced[0](self, *args, **kwargs)
            if get_ident() != owner:
                return original(self, *args, **kwargs)
            append(self)
            append(read())
            try:
                return original(self, *args, **kwargs)
            finally:
                append(read())

        return __call__

    def spans(self, index: Mapping[int, int]) -> Spans:
        """What the pass since the last call came to; `index` has the modules' places by identity."""
        marks, self._marks[:] = list(self._marks), []
        return _added(marks, index)


class _Open:
    """A call that has not ended yet."""

    __slots__ = ("began", "inner", "module")

    def __init__(self, module: int | None, began: int) -> None:
        self.module = module
        self.began = began
        self.inner = 0


def _added(marks: list[Any], index: Mapping[int, int]) -> Spans:
    calls: dict[int, int] = {}
    totals: dict[int, int] = {}
    own: dict[int, int] = {}
    running: dict[int, int] = {}
    stack: list[_Open] = []
    rest = iter(marks)
    for mark in rest:
        if not isinstance(mark, int):  # a module, and when its call began
            module = index.get(id(mark))
            stack.append(_Open(module, next(rest)))
            if module is not None:
                running[module] = running.get(module, 0) + 1
            continue
        call = stack.pop()
        took = mark - call.began
        # What a module made in forward does itself is its owner's own time.
        inner = call.inner if call.module is None else took
        if stack:
            stack[-1].inner += inner
        if call.module is None:
            continue
        running[call.module] -= 1
        calls[call.module] = calls.get(call.module, 0) + 1
        own[call.module] = own.get(call.module, 0) + took - call.inner
        if not running[call.module]:
            totals[call.module] = totals.get(call.module, 0) + took
    found = {module: Spent(calls[module], totals.get(module, 0), own[module]) for module in calls}
    return Spans(found, sum(own.values()), sum(calls.values()))
