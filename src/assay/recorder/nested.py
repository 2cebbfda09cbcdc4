"""Nested tensors: the shapes of their components, in the strided and the jagged layout."""

from __future__ import annotations

from typing import Any

import torch


def components(tensor: Any) -> tuple[tuple[int, ...], ...] | None:
    """The shape of each component of a nested tensor; None if it is on meta, where its lengths have no values."""
    if tensor.layout is torch.strided:
        return tuple(tuple(shape) for shape in tensor._nested_tensor_size().tolist())
    if tensor._offsets.is_meta:
        return None
    lengths = tensor._offsets.diff() if tensor._lengths is None else tensor._lengths
    inner = range(1, tensor.dim())
    return tuple(
        tuple(int(length) if dim == tensor._ragged_idx else int(tensor.shape[dim]) for dim in inner)
        for length in lengths.tolist()
    )


def sizes(tensor: torch.Tensor) -> tuple[int, ...]:
    """The shape of a nested tensor in the strided layout; a dimension that differs between components is -1."""
    shapes = components(tensor)
    if not shapes:
        return (0, *(-1,) * (tensor.dim() - 1))
    return (len(shapes), *(each[0] if len(set(each)) == 1 else -1 for each in zip(*shapes, strict=True)))
