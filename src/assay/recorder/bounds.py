"""Sizes that depend on data, in a pass without data: their upper bounds, and the ops that derive from them.

A mask of the chosen experts has a known bound: `topk` chooses an expert at most once per row, so at most one of its k
choices is true. This is followed from `topk` to the mask through the ops that keep it.
"""

from __future__ import annotations

from typing import Any

import torch

from assay.recorder.kinds import tensors_in
from assay.recorder.storages import Life, StorageLog

_KEEP_CHOICES = frozenset(
    f"aten::{name}" for name in ("one_hot", "eq", "index", "to", "_to_copy", "clone", "contiguous", "logical_and")
)
"""Ops whose first input holds choices of `topk`, and whose result holds at most one of each row's per value."""

_SHAPED_LIKE_FIRST = frozenset(
    f"aten::{name}"
    for name in (
        *("index_add", "index_copy", "index_fill", "index_put", "index_reduce", "masked_scatter"),
        *("scatter", "scatter_add", "scatter_reduce", "select_scatter", "slice_scatter"),
    )
)
"""Ops whose result has the shape of the first input, whatever the sizes of the others."""


class Bounds:
    """Follows sizes that were assumed to be as large as possible."""

    def __init__(self, storages: StorageLog) -> None:
        self._storages = storages
        self._here = False
        self._names: dict[Any, str] = {}
        self.ops: set[int] = set()
        """Indices of the ops that have a size that was assumed, or that derives from one."""

    def assumed(self) -> None:
        """The current op was given an assumed size."""
        self._here = True

    def most_true(self, mask: torch.Tensor) -> int:
        """The most elements of `mask` that can be true."""
        choices = self._storages.find(mask, "constant").choices
        if choices is None:
            return int(mask.numel())
        per_row, total = choices
        return total // per_row if mask.numel() == total else min(mask.numel(), total)

    def follow(self, func: Any, args: tuple[Any, ...], lives: list[Life], result: Any) -> None:
        """Record what the inputs of an op, or its own assumption, mean for the op and its result."""
        name = self._names.get(func)
        if name is None:
            name = self._names[func] = getattr(getattr(func, "_schema", None), "name", "")
        self._follow_choices(name, args, lives, result)
        if not self._here and not any(life.assumed for life in lives):
            return
        self._here = False
        self.ops.add(self._storages.clock)
        if name in _SHAPED_LIKE_FIRST and not lives[0].assumed:
            return
        inputs = {life.number for life in lives}
        for tensor in tensors_in(result):
            life = self._storages.find(tensor, "activation")
            life.assumed = life.assumed or life.number not in inputs

    def _follow_choices(self, name: str, args: tuple[Any, ...], lives: list[Life], result: Any) -> None:
        """Mark the choices of `topk`, and the results of ops that keep them apart."""
        if name == "aten::topk":
            indices = result[1]
            self._storages.find(indices, "activation").choices = (max(args[1], 1), indices.numel())
            return
        choices = lives[0].choices if lives else None
        if choices is None:
            return
        if name.endswith("_"):  # written in place: the choices may no longer differ
            lives[0].choices = None
        elif name in _KEEP_CHOICES and _keeps(name, args, lives, result):
            self._storages.find(result, "activation").choices = choices


def _keeps(name: str, args: tuple[Any, ...], lives: list[Life], result: torch.Tensor) -> bool:
    """Whether every choice is still counted at most once: compared with different values, or not repeated."""
    if name == "aten::index":
        return int(result.numel()) <= int(args[0].numel())
    other = args[1] if name == "aten::eq" else None
    if not isinstance(other, torch.Tensor) or other.numel() == 1:
        return True
    different = lives[1].values_known and other.unique().numel() == other.numel()
    return different and result.numel() == args[0].numel() * other.numel()
