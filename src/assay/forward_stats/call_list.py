"""`module.forward_stats`: the list on a module that holds its calls, and what is done with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn

from assay.errors import UsageError
from assay.forward_stats.results import ForwardStats
from assay.recorder.guard import RECORDED
from assay.sources.holders import named_modules

ATTRIBUTE = RECORDED


class CallList(list[ForwardStats]):
    """`module.forward_stats`: its calls, newest last. A pickled model carries an empty plain list instead."""

    __slots__ = ("recorders",)

    def __init__(self, calls: Iterable[ForwardStats] = ()) -> None:
        super().__init__(calls)
        self.recorders: list[tuple[Any, str]] = []
        """Who records this module now, and by which path; the last one does."""

    def __deepcopy__(self, memo: dict[int, Any]) -> CallList:
        return CallList(self)

    def __copy__(self) -> CallList:
        return CallList(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return list, ()


def prepared(module: nn.Module, path: str) -> CallList:
    """The list of `module`, made where there is none yet; one of its own by that name is refused."""
    found = module.__dict__.get(ATTRIBUTE)
    if isinstance(found, CallList):
        return found
    if (ATTRIBUTE in module.__dict__ and not _left_by_a_file(found)) or _means_something_else(module):
        raise UsageError(f"{path or 'the model'} has a `{ATTRIBUTE}` of its own; record a model without that name")
    return CallList()


def recorded(module: nn.Module) -> list[ForwardStats]:
    """The calls on `module`; empty where none were recorded. Nothing of it is executed."""
    found = module.__dict__.get(ATTRIBUTE)
    return found if isinstance(found, CallList) else []


def clear_forward_stats(model: object) -> None:
    """Remove `forward_stats` from every module of `model`; while it is being recorded, empty them.

    Args:
        model: A module, or an object that holds several.
    """
    for _, module in named_modules(model):
        found = module.__dict__.get(ATTRIBUTE)
        if isinstance(found, CallList) and found.recorders:
            found.clear()
        elif isinstance(found, CallList) or _left_by_a_file(found):
            del module.__dict__[ATTRIBUTE]


def _left_by_a_file(found: Any) -> bool:
    return type(found) is list and not found


def _means_something_else(module: nn.Module) -> bool:
    """Whether the name is taken by the class, or by a parameter, buffer or submodule."""
    groups = (module._parameters, module._buffers, module._modules)
    return hasattr(type(module), ATTRIBUTE) or any(ATTRIBUTE in group for group in groups)
