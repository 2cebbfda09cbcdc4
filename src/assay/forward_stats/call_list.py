"""`module.forward_stats`: the list of recorded calls on each module."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn

from assay.display import Displayed
from assay.errors import UsageError
from assay.forward_stats.results import ForwardStats
from assay.recorder.kept import STATS_ATTRIBUTE
from assay.sources.holders import named_modules

ATTRIBUTE = STATS_ATTRIBUTE


class CallList(Displayed, list[ForwardStats]):
    """`module.forward_stats`: the recorded calls, newest last. It is pickled as an empty plain list."""

    __slots__ = ("recorders",)

    def __init__(self, calls: Iterable[ForwardStats] = ()) -> None:
        super().__init__(calls)
        self.recorders: list[tuple[Any, str]] = []
        """The active recorders with the module's path in each; only the last one records."""

    def __deepcopy__(self, memo: dict[int, Any]) -> CallList:
        return CallList(self)

    def __copy__(self) -> CallList:
        return CallList(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return list, ()


def existing_or_new(module: nn.Module, path: str) -> CallList:
    """The call list of `module`, or a new one; a UsageError if the module uses the name for something else."""
    current = module.__dict__.get(ATTRIBUTE)
    if isinstance(current, CallList):
        return current
    if (ATTRIBUTE in module.__dict__ and not _is_unpickled(current)) or _uses_the_name(module):
        raise UsageError(
            f"{path or 'the model'} already has an attribute `{ATTRIBUTE}`, which recording needs: rename it"
        )
    return CallList()


def calls_of(module: nn.Module) -> list[ForwardStats]:
    """The recorded calls of `module`; empty if there are none. No code of the module runs."""
    current = module.__dict__.get(ATTRIBUTE)
    return current if isinstance(current, CallList) else []


def clear_forward_stats(model: object) -> None:
    """Remove `forward_stats` from every module of `model`; lists that are being recorded are emptied instead.

    Args:
        model: A module, or an object that contains modules.
    """
    for _, module in named_modules(model):
        current = module.__dict__.get(ATTRIBUTE)
        if isinstance(current, CallList) and current.recorders:
            current.clear()
        elif isinstance(current, CallList) or _is_unpickled(current):
            del module.__dict__[ATTRIBUTE]


def _is_unpickled(current: Any) -> bool:
    """Whether it is the empty plain list that a pickled model has."""
    return type(current) is list and not current


def _uses_the_name(module: nn.Module) -> bool:
    """Whether the class, a parameter, a buffer or a submodule has the name."""
    groups = (module._parameters, module._buffers, module._modules)
    return hasattr(type(module), ATTRIBUTE) or any(ATTRIBUTE in group for group in groups)
