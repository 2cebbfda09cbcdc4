"""The state of each captured instance: its name, number of passes, and file name stem."""

from __future__ import annotations

import threading
import weakref
from pathlib import Path

from torch import nn

from assay.messages import plural
from assay.trace.write.names import FileStems
from assay.trace.write.plan import CapturePlan

_stems = FileStems()


class Instance:
    """The state of one model object, stored outside it so that the object, its copies and pickles stay unchanged."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.passes = 0
        """The number of calls of the model so far, captured or not."""
        self.captured = 0
        self._stem: tuple[Path, str] | None = None

    def stem(self, directory: Path) -> str:
        """The beginning of its file names in `directory`, claimed on first use."""
        if self._stem is None or self._stem[0] != directory:
            self._stem = (directory, _stems.claim(directory, self.name))
        return self._stem[1]

    def lose_stem(self) -> None:
        """Claim a new stem next time, because another process uses this one."""
        self._stem = None


class Instances:
    """The state of captured objects by identity; dropped when the object is collected."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[nn.Module], Instance]] = {}
        self._lock = threading.Lock()

    def of(self, model: nn.Module, name: str) -> Instance:
        """The state of `model`; created with `name` if there is none yet."""
        key = id(model)
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and entry[0]() is model:
                return entry[1]
            instance = Instance(name)
            self._entries[key] = (weakref.ref(model, lambda dead: self._forget(key, dead)), instance)
        return instance

    def _forget(self, key: int, dead: weakref.ref[nn.Module]) -> None:
        if key in self._entries and self._entries[key][0] is dead:
            del self._entries[key]


def skip_reason(instance: Instance, plan: CapturePlan) -> str | None:
    """Count a pass of `instance`, and return why it is not traced; None if it is."""
    instance.passes += 1
    if instance.passes <= plan.warmup:
        return f"warm-up, {plural(plan.warmup, 'pass')}"
    if (instance.passes - plan.warmup - 1) % plan.every:
        return f"only one pass in {plan.every} is traced"
    if plan.most is not None and instance.captured >= plan.most:
        return f"limit of {plural(plan.most, 'pass')} reached"
    return None
