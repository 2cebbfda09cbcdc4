"""A change: one way to alter a model or how it runs, registered under a name.

A change is made of plain functions that use only torch and `Runnable`, so that a script can contain them.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from assay.errors import UsageError
from assay.trials.runnable import Runnable

STAGES = ("rewrite", "inputs", "layout", "dtype", "fusion", "quantization", "setting", "compile", "graph", "process")
"""The order in which stacked changes are applied: a graph is captured from the final model, inputs and settings."""

_CHANGES: dict[str, Change] = {}


class NotApplicable(Exception):
    """Raised by a change that finds nothing to change, or that this device or installation does not support."""


@dataclass(frozen=True)
class Change:
    """One way to alter a model or how it runs."""

    name: str
    """`channels_last`; lower case, as it is written after --try."""
    summary: str
    """What it does, in one line that starts with a verb."""
    codes: tuple[str, ...]
    """The rules whose advice it follows."""
    effect: str
    """What it may do to outputs: `exact`, `rounding` or `lossy`."""
    apply: Callable[..., Runnable]
    """Alters a `Runnable`, whose model it may change, and returns it or another; raises `NotApplicable`."""
    parts: tuple[Any, ...] = ()
    """Functions and classes that `apply` uses, which a script must contain too."""
    imports: tuple[str, ...] = ()
    """Import lines that `apply` and its parts need, beyond `import torch` and `from torch import nn`."""
    stage: str = "rewrite"
    """When it is applied in a stack: one of `STAGES`."""
    training: bool = False
    """Whether it is about training steps, and is measured on one."""
    isolated: bool = False
    """Whether it may leave traces in the process (compilers, patched libraries), so that it gets one of its own."""
    options: Callable[[Runnable], Iterable[Any]] | None = None
    """The values to try for the `value` argument of `apply`, such as thread counts; None if it takes none."""


def register(change: Change) -> Change:
    """Add a change to the registry; a ValueError if its name is already in use."""
    if change.name in _CHANGES:
        raise ValueError(f"a change named {change.name!r} is already registered")
    _CHANGES[change.name] = change
    return change


def changes() -> tuple[Change, ...]:
    """All changes, sorted by name."""
    _load()
    return tuple(_CHANGES[name] for name in sorted(_CHANGES))


def named(name: str) -> Change:
    """The change with this name; a UsageError if there is none."""
    _load()
    if name not in _CHANGES:
        raise UsageError(f"unknown change {name!r}: choose from {', '.join(sorted(_CHANGES))}")
    return _CHANGES[name]


def stack_order(names: Iterable[str]) -> list[str]:
    """The names of changes, or `name=value`, in the order in which they can be stacked."""
    return sorted(names, key=lambda name: STAGES.index(named(name.partition("=")[0]).stage))


@cache
def _load() -> None:
    """Import every module of changes, which registers its changes."""
    package = import_module("assay.trials.changes")
    for module in pkgutil.iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
