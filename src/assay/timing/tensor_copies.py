"""Copies of an op's tensors that share storages exactly as the originals do.

Recurrent layers keep their weights as views of one storage, and run slower and warn if each weight is copied alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

_WHOLE = 0.5
"""A storage is copied whole, so that offsets stay the same, if the views span at least this share of it."""
_ALIGNED = 512
"""A partial copy starts at a multiple of this many bytes, so that tensors are aligned as they were."""


def copied(values: Any) -> Any:
    """`values`, a nest of containers, with every tensor copied and detached; views of one storage stay so."""
    leaves, structure = tree_flatten(values)
    views: dict[int, list[torch.Tensor]] = {}
    for leaf in leaves:
        if _is_plain(leaf):
            views.setdefault(leaf.untyped_storage()._cdata, []).append(leaf)
    copies = {key: _StorageCopy(several) for key, several in views.items()}
    return tree_unflatten([_copy(leaf, copies) for leaf in leaves], structure)


class _StorageCopy:
    """The part of a storage that some views of it span, copied."""

    def __init__(self, views: Sequence[torch.Tensor]) -> None:
        storage = views[0].untyped_storage()
        first = min(view.storage_offset() * view.element_size() for view in views)
        last = max(_end(view) for view in views)
        whole = last - first >= _WHOLE * storage.nbytes()
        self._begin = 0 if whole else first // _ALIGNED * _ALIGNED
        everything = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
        self._storage = everything[self._begin : storage.nbytes() if whole else last].clone().untyped_storage()

    def view(self, of: torch.Tensor) -> torch.Tensor:
        """The copy of `of`: the same sizes, strides and bits."""
        # A partial copy starts at a multiple of every element size, so this division is exact.
        offset = of.storage_offset() - self._begin // of.element_size()
        view = torch.empty(0, dtype=of.dtype, device=of.device).set_(self._storage, offset, of.size(), of.stride())
        view = view.conj() if of.is_conj() else view
        return torch._neg_view(view) if of.is_neg() else view


def _copy(leaf: Any, copies: dict[int, _StorageCopy]) -> Any:
    if _is_plain(leaf):
        return copies[leaf.untyped_storage()._cdata].view(leaf)
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf


def _is_plain(leaf: Any) -> bool:
    """Whether a leaf is a dense tensor over a storage; sparse, quantized and other tensors are cloned one by one."""
    plain = type(leaf) in (torch.Tensor, torch.nn.Parameter)
    return plain and leaf.layout is torch.strided and not leaf.is_quantized and leaf.device.type != "meta"


def _end(view: torch.Tensor) -> int:
    """The byte after the last one of the storage that a view covers; its start if it has no elements."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(view.size(), view.stride(), strict=True))
    return int((view.storage_offset() + (extent if view.numel() else 0)) * view.element_size())
