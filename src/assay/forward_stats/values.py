"""The values of one tensor as four figures and two flags, and how tensors are made ready for them.

NaN and infinities go through min, max, mean and std as torch lets them; std is `tensor.std()`, and unknown for a
single element.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

Number = float | int | complex


class ValueStats(NamedTuple):
    """What a tensor's values were; None where nobody knows, and then `why`."""

    min: Number | None = None
    max: Number | None = None
    mean: Number | None = None
    std: float | None = None
    nan: bool | None = None
    inf: bool | None = None
    why: str = ""


SWITCHED_OFF = ValueStats(why="values were switched off")
META = ValueStats(why="on the meta device: there are no numbers")
EMPTY = ValueStats(nan=False, inf=False, why="empty")

_READ_AS = {torch.uint16: torch.int32, torch.uint32: torch.int64}
"""Types that torch cannot reduce, and what holds all of their values."""


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as a plain tensor."""
    if tensor.is_quantized:
        return tensor.dequantize()
    if tensor.is_nested:
        parts = [part.reshape(-1) for part in tensor.unbind()]
        return torch.cat(parts) if parts else torch.empty(0, dtype=tensor.dtype)
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def reducible(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in a type that torch can take the least and largest of."""
    if tensor.dtype is torch.bool:
        return tensor.view(torch.uint8)
    if tensor.is_floating_point() and tensor.dtype.itemsize == 1:
        return tensor.float()
    return tensor.to(_READ_AS.get(tensor.dtype, tensor.dtype))


def flattened(tensor: torch.Tensor) -> torch.Tensor:
    """The distinct elements in one dimension, in memory's order; copied only where they are not dense.

    What `expand` repeats stands once: every element is repeated alike, so no figure depends on it.
    """
    if tensor.is_contiguous():
        return tensor.view(-1)
    for dim in reversed(range(tensor.dim())):
        if tensor.stride(dim) == 0:
            tensor = tensor.select(dim, 0)
    order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    return tensor.permute(order).reshape(-1)


def deviation(variance: float, count: int) -> float | None:
    """The standard deviation as torch's `std` defines it, from the population's variance."""
    return math.sqrt(max(variance, 0.0) * count / (count - 1)) if count > 1 else None
