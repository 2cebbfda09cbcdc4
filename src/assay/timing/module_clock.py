"""Stamps the beginning and the end of each module call with a clock around `nn.Module.__call__`.

The hot path appends to one list; everything else is computed after the pass. Calls on other threads, and calls of
modules created inside `forward`, count as time of the module that was running.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import nn

from assay.recorder.intercept import Method, observing
from assay.timing.device import now
from assay.timing.segments import Chain

_LOOPS = 20
_CALLS = 50


class CallEvents(NamedTuple):
    """The beginnings and ends of the module calls of one pass."""

    modules: tuple[int | None, ...]
    """One item per event: the module whose call begins, `-1` if a call ends, None if the module has no index."""
    times_ns: list[int]
    """The time of each event."""

    def chains(self) -> list[Chain]:
        """The modules around each segment: before the first event, between events, and after the last."""
        chains: list[Chain] = [()]
        outer: list[Chain] = []
        for module in self.modules:
            if module == END:
                chains.append(outer.pop())
            else:
                outer.append(chains[-1])
                chains.append(chains[-1] if module is None else (*chains[-1], module))
        return chains


END = -1


class ModuleClock:
    """Stamps every module call inside its `with` block, on the thread that entered the block."""

    def __init__(self, read: Callable[[], int] = now) -> None:
        self.marks: list[Any] = []
        """Per event a time, after the module if a call begins."""
        self._read = read
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> ModuleClock:
        self._owner = threading.get_ident()
        self._stack.enter_context(observing(self._clocked))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _clocked(self, original: Method, replaced: Sequence[Method]) -> Method:
        append = self.marks.append
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

    def segments_at(self, lengths: Sequence[int]) -> list[int]:
        """The segment that was running when `marks` had each of these lengths; call it before `events`."""
        ended = [0, *accumulate(isinstance(mark, int) for mark in self.marks)]
        return [ended[length] for length in lengths]

    def events(self, index: Mapping[int, int]) -> CallEvents:
        """The events since the last call of `events`; `index` maps `id(module)` to the module's row."""
        marks, self.marks[:] = list(self.marks), []
        modules: list[int | None] = []
        times: list[int] = []
        rest = iter(marks)
        for mark in rest:
            if isinstance(mark, int):
                modules.append(END)
                times.append(mark)
            else:
                modules.append(index.get(id(mark)))
                times.append(next(rest))
        return CallEvents(tuple(modules), times)


def clock_cost_ns(read: Callable[[], int] = now) -> float:
    """The overhead of a `ModuleClock` per segment: half of what it adds to a call of a module that does nothing."""
    module, argument = nn.Identity(), torch.zeros(1)

    def fastest() -> float:
        samples = []
        for _ in range(_LOOPS):
            begin = read()
            for _ in range(_CALLS):
                module(argument)
            samples.append(read() - begin)
        return min(samples) / _CALLS

    bare = fastest()
    with ModuleClock(read):
        clocked = fastest()
    return max(clocked - bare, 0.0) / 2
