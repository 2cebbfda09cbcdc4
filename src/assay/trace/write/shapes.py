"""The shapes of what module calls got, each combination kept once."""

from __future__ import annotations

from typing import Any

import torch

from assay.recorder.inventory import sizes
from assay.recorder.kinds import tensors_in

_MOST_TENSORS = 64
"""A call with more tensors than this is not read by anyone; its first ones are kept."""


class ShapeNumbers:
    """Numbers for combinations of input shapes."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[int, ...], ...], int] = {}

    def number_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """The number of this call's combination; -1 where it has no tensor."""
        if len(args) == 1 and not kwargs and type(args[0]) is torch.Tensor:
            key: tuple[tuple[int, ...], ...] = (args[0].shape,)
        else:
            found = [
                sizes(tensor) for _, tensor in zip(range(_MOST_TENSORS), tensors_in((args, kwargs)), strict=False)
            ]
            if not found:
                return -1
            key = tuple(found)
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self._known)
        return number

    def table(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The combinations by their numbers, in plain integers."""
        return tuple(tuple(tuple(int(size) for size in shape) for shape in key) for key in self._known)
