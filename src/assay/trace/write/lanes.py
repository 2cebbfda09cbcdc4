"""Labels and times the module calls of one thread during a capture."""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable
from itertools import islice
from time import perf_counter_ns
from typing import Any

import torch
from torch import nn
from torch._C._profiler import _RecordFunctionFast

from assay.document.trace_labels import encode_path
from assay.recorder.inventory import children, sizes
from assay.recorder.kinds import tensors_in

_MOST_ALIASES = 100
_MOST_TENSORS = 64
"""The maximum number of tensors per call whose shapes are kept."""
_label = functools.lru_cache(maxsize=1 << 16)(encode_path)


class ShapeNumbers:
    """Numbers for combinations of input shapes, shared by all threads of a capture."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[tuple[int, ...], ...], int] = {}
        self._lock = threading.Lock()

    def number_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """The number of this call's combination of input shapes; -1 if it has no tensors."""
        if len(args) == 1 and not kwargs and type(args[0]) is torch.Tensor:
            key: tuple[tuple[int, ...], ...] = (args[0].shape,)
        else:
            key = tuple(map(sizes, islice(tensors_in((args, kwargs)), _MOST_TENSORS)))
            if not key:
                return -1
        number = self._numbers.get(key)
        if number is None:
            with self._lock:  # otherwise two threads could assign the same number to two combinations
                number = self._numbers.setdefault(key, len(self._numbers))
        return number

    def table(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The combinations in the order of their numbers, as plain integers."""
        return tuple(tuple(tuple(int(size) for size in shape) for shape in key) for key in self._numbers)


class Slot:
    """One module of a captured model, and the totals of its calls."""

    __slots__ = ("aliases", "calls", "class_name", "label", "own_ns", "path", "running", "shapes", "total_ns")

    def __init__(self, path: str, class_name: str) -> None:
        self.path = path
        self.class_name = class_name
        self.label = _label(path)
        self.aliases: list[str] = []
        self.calls = 0
        self.running = 0
        self.own_ns = 0
        self.total_ns = 0
        self.shapes: list[int] = []


class Lane:
    """The calls of one thread, by module."""

    def __init__(self, root: nn.Module, prefix: str, shapes: ShapeNumbers | None) -> None:
        # Time of finished calls that were nested directly in the current innermost call.
        self._finished_ns = 0
        self.called: list[Slot] = []
        """The modules that were called, in the order of their first calls."""
        self._shapes = shapes
        self._slots = _slots_of(root, prefix)
        self._inside: Slot | None = None
        self._created: Counter[str] = Counter()
        self._kept: list[nn.Module] = [root]

    def call(
        self, module: nn.Module, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call `original` with this module's label and clock around it, and return its result."""
        slot = self._slots.get(id(module)) or self._adopt(module)
        if not slot.calls:
            self.called.append(slot)
        slot.calls += 1
        slot.running += 1
        if self._shapes is not None:
            slot.shapes.append(self._shapes.number_of(args, kwargs))
        above, self._inside = self._inside, slot
        before, self._finished_ns = self._finished_ns, 0
        began = perf_counter_ns()
        try:
            with _RecordFunctionFast(slot.label):
                return original(module, *args, **kwargs)
        finally:
            took = perf_counter_ns() - began
            slot.own_ns += took - self._finished_ns
            slot.running -= 1
            if not slot.running:  # a module inside itself is already counted by its outer call
                slot.total_ns += took
            self._finished_ns = before + took
            self._inside = above

    def _adopt(self, module: nn.Module) -> Slot:
        """A slot for a module outside the model; the module is kept alive so that its id is not reused."""
        self._kept.append(module)
        name = type(module).__name__
        stem = f"{self._inside.path}.({name})".lstrip(".") if self._inside is not None else f"({name})"
        number = self._created[stem]
        self._created[stem] += 1
        slot = self._slots[id(module)] = Slot(f"{stem}#{number}" if number else stem, name)
        return slot


def _slots_of(root: nn.Module, prefix: str) -> dict[int, Slot]:
    """A slot for `root` and every module below it; a shared module's path is the first of its names."""
    slots: dict[int, Slot] = {}
    pending = [(prefix, root)]
    while pending:
        path, module = pending.pop()
        slot = slots.get(id(module))
        if slot is not None:
            if len(slot.aliases) < _MOST_ALIASES:
                slot.aliases.append(path)
            continue
        slots[id(module)] = Slot(path, type(module).__name__)
        pending.extend(reversed(children(path, module)))
    return slots
