"""Statistics of a tensor's values, and the conversions that tensors need before they can be computed.

NaN and infinities propagate to min, max, mean and std as in torch. The std is `tensor.std()` and unknown for a single
element.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

Number = float | int | complex


class ValueStats(NamedTuple):
    """Statistics of a tensor's values; unknown ones are None, and `why` gives the reason."""

    min: Number | None = None
    max: Number | None = None
    mean: Number | None = None
    std: float | None = None
    nan: bool | None = None
    inf: bool | None = None
    why: str = ""


NO_VALUES = ValueStats(why="recorded with values=False")
META = ValueStats(why="on the meta device: no values")
EMPTY = ValueStats(nan=False, inf=False, why="empty")

_READ_AS = {torch.uint16: torch.int32, torch.uint32: torch.int64}
"""Dtypes that torch cannot reduce, with a dtype that represents all of their values."""


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as a plain strided tensor: dequantized, unnested or made dense."""
    if tensor.is_quantized:
        return tensor.dequantize()
    if tensor.is_nested:
        parts = [part.reshape(-1) for part in tensor.unbind()]
        return torch.cat(parts) if parts else torch.empty(0, dtype=tensor.dtype)
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def reducible(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in a dtype for which torch can compute min and max."""
    if tensor.dtype is torch.bool:
        return tensor.view(torch.uint8)
    if tensor.is_floating_point() and tensor.dtype.itemsize == 1:
        return tensor.float()
    return tensor.to(_READ_AS.get(tensor.dtype, tensor.dtype))


def flattened(tensor: torch.Tensor) -> torch.Tensor:
    """The elements in one dimension, in memory order; copied only if they are not dense in memory.

    Dimensions repeated by `expand` are included once: all elements are repeated equally, so no statistic changes.
    """
    if tensor.is_contiguous():
        return tensor.view(-1)
    for dim in reversed(range(tensor.dim())):
        if tensor.stride(dim) == 0:
            tensor = tensor.select(dim, 0)
    order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    return tensor.permute(order).reshape(-1)


def deviation(variance: float, count: int) -> float | None:
    """The sample standard deviation (`torch.std`) from the population variance; None for a single element."""
    return math.sqrt(max(variance, 0.0) * count / (count - 1)) if count > 1 else None
