"""What is known about each captured instance: its name, how often it ran, and the stem of its files."""

from __future__ import annotations

import threading
import weakref
from pathlib import Path

from torch import nn

from assay.trace.write.names import FileStems
from assay.trace.write.plan import CapturePlan

_stems = FileStems()


class Instance:
    """One model object; kept beside it, so that the object itself, its copies and its pickles know nothing."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.passes = 0
        """Calls of the model so far, captured or not."""
        self.captured = 0
        self._stem: tuple[Path, str] | None = None

    def stem(self, directory: Path) -> str:
        """What the names of its files in `directory` begin with, claimed at the first."""
        if self._stem is None or self._stem[0] != directory:
            self._stem = (directory, _stems.claim(directory, self.name))
        return self._stem[1]

    def lose_stem(self) -> None:
        """Another process uses the stem: take another from now on."""
        self._stem = None


class Instances:
    """The captured objects by identity; what is gone is forgotten."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[nn.Module], Instance]] = {}
        self._lock = threading.Lock()

    def of(self, model: nn.Module, name: str) -> Instance:
        """What is known about `model`, called `name` where it was never seen."""
        key = id(model)
        with self._lock:
            found = self._known.get(key)
            if found is not None and found[0]() is model:
                return found[1]
            instance = Instance(name)
            self._known[key] = (weakref.ref(model, lambda gone: self._forget(key, gone)), instance)
        return instance

    def _forget(self, key: int, gone: weakref.ref[nn.Module]) -> None:
        if key in self._known and self._known[key][0] is gone:
            del self._known[key]


def due(instance: Instance, plan: CapturePlan) -> str | None:
    """Why this pass of `instance` is not captured; None where it is. Counts the pass."""
    instance.passes += 1
    if instance.passes <= plan.warmup:
        return f"one of {plan.warmup} passes to warm up"
    if (instance.passes - plan.warmup - 1) % plan.every:
        return f"one in {plan.every} is captured"
    if plan.most is not None and instance.captured >= plan.most:
        return f"{plan.most} are captured"
    return None
