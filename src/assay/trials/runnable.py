"""A model with its arguments and the settings it runs under: what a change takes and returns.

This file is copied into the scripts that `assay check --apply` writes, so it uses only torch and Python.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Runnable:
    """A model, what it is called with, and the settings it runs under."""

    model: Any
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    contexts: tuple[Callable[[], AbstractContextManager[Any]], ...] = ()
    """Makers of context managers to enter around each pass, outermost first: autocast, thread counts, …"""
    items: float = 1.0
    """Items per pass, relative to the original; not 1 only if the batch was changed."""
    compare: Callable[[Any, Any], tuple[Any, Any]] | None = None
    """Takes the outputs of the original and of this one and returns the parts that correspond; None if all do."""

    def __call__(self) -> Any:
        """Run one pass."""
        with contextlib.ExitStack() as stack:
            for context in self.contexts:
                stack.enter_context(context())
            return self.model(*self.args, **self.kwargs)
