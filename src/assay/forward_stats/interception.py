"""The observer of module calls while anyone records.

Whether a module is recorded, and by whom, stands in the list on the module itself, so that replicas of it that
data parallelism makes are seen and copies are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from assay.forward_stats.call_list import ATTRIBUTE, CallList
from assay.forward_stats.running import path_below, running
from assay.recorder.intercept import Method


def recorded(original: Method, replaced: Sequence[Method]) -> Method:
    """`original`, recorded for modules that have a recorder, in whatever thread."""
    is_compiling = torch.compiler.is_compiling

    def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(self, *args, **kwargs)
        if replaced:
            return replaced[0](self, *args, **kwargs)
        calls = self.__dict__.get(ATTRIBUTE)
        if calls is None:
            calls = _adopted(self)
        if calls.__class__ is not CallList or not calls.recorders:
            return original(self, *args, **kwargs)
        recording, path = calls.recorders[-1]
        return recording.run(path, calls, self, original, args, kwargs)

    return __call__


def _adopted(module: nn.Module) -> CallList | None:
    """The list of a module that the running one made and keeps, as lazy models do; None for any other."""
    stack = running()
    path = path_below(stack[-1], module) if stack else None
    return None if path is None else stack[-1].recording.adopt(path, module)
