"""Times each module's calls with a clock around `nn.Module.__call__`.

The hot path appends to one list; everything else is computed after the pass. Calls on other threads, and calls of
modules created inside `forward`, count as time of the module that was running.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
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
    """The module times of one pass."""

    modules: dict[int, Spent]
    """By the module's index."""
    inside_ns: int
    """The sum of all self times: the time spent inside modules."""
    calls: int


class ModuleClock:
    """Times every module call inside its `with` block, on the thread that entered the block."""

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
        """The module times since the last call of `spans`; `index` maps `id(module)` to the module's row."""
        marks, self._marks[:] = list(self._marks), []
        return _added(marks, index)


def _added(marks: list[Any], index: Mapping[int, int]) -> Spans:
    calls: Counter[int] = Counter()
    totals: Counter[int] = Counter()
    own: Counter[int] = Counter()
    running: Counter[int] = Counter()
    stack: list[tuple[int | None, int]] = []
    inside_ns = [0]  # time in nested calls: outside all calls first, then of each call on the stack
    rest = iter(marks)
    for mark in rest:
        if not isinstance(mark, int):  # a module; the next mark is the start of its call
            module = index.get(id(mark))
            stack.append((module, next(rest)))
            inside_ns.append(0)
            if module is not None:
                running[module] += 1
            continue
        module, began = stack.pop()
        took, inside = mark - began, inside_ns.pop()
        if module is None:  # the self time of a module created in forward counts as its caller's self time
            inside_ns[-1] += inside
            continue
        inside_ns[-1] += took
        running[module] -= 1
        calls[module] += 1
        own[module] += took - inside
        if not running[module]:
            totals[module] += took
    spent = {module: Spent(count, totals[module], own[module]) for module, count in calls.items()}
    return Spans(spent, sum(own.values()), sum(calls.values()))
