"""Weights that torch keeps packed inside an opaque object, as its quantized modules do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

UNPACK = {
    "linear": "linear_unpack",
    "conv1d": "conv1d_unpack",
    "conv2d": "conv2d_unpack",
    "conv3d": "conv3d_unpack",
    "conv_transpose1d": "conv_transpose1d_unpack",
    "conv_transpose2d": "conv_transpose2d_unpack",
    "conv_transpose3d": "conv_transpose3d_unpack",
}
"""How the weight and bias of a quantized operation are taken out of its packed object."""

_OBJECTS = {
    "LinearPackedParamsBase": "linear",
    **{f"Conv{n}dPackedParamsBase": f"conv{n}d" for n in (2, 3)},
}
"""What the packed objects of modules are called."""


def unpack(stem: str, packed: Any) -> tuple[Any, Any]:
    """Weight and bias of the packed object of a `linear`, `conv2d`, …"""
    weight, bias = getattr(torch.ops.quantized, UNPACK[stem])(packed)[:2]
    return weight, bias


def unpacked(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Name and value of the tensors that a quantized module of torch itself holds packed."""
    if not type(module).__module__.startswith("torch.ao."):
        return
    packed = module.__dict__.get("_packed_params")
    stem = _OBJECTS.get(packed._type().name()) if isinstance(packed, torch.ScriptObject) else None
    if stem is None:
        return
    for name, tensor in zip(("weight", "bias"), unpack(stem, packed), strict=True):
        if tensor is not None:
            yield name, tensor
