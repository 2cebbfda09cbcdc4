"""Operations kept with the inputs they had, so that one can be run again alone: for its energy, say."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_map_only


class OpKeeper:
    """Keeps the operations with these numbers, counted as `OpClock` counts them, while a pass is recorded."""

    def __init__(self, wanted: Collection[int]) -> None:
        self.kept: dict[int, Callable[[], object]] = {}
        """What runs each again, on copies of its inputs."""
        self._wanted = frozenset(wanted)
        self._count = 0

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The operation's result."""
        if self._count in self._wanted:
            args_kept, kwargs_kept = tree_map_only(torch.Tensor, _copy, (args, kwargs))
            self.kept[self._count] = partial(func, *args_kept, **kwargs_kept)
        self._count += 1
        return func(*args, **kwargs)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in the same layout, free of autograd."""
    return tensor.detach().clone(memory_format=torch.preserve_format)
