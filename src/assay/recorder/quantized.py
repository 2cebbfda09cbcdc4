"""Weights that torch's quantized modules store packed in an opaque object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes

from assay.sources.torchscript.modules import InterpretedModule
from assay.sources.torchscript.quantized import PackedWeights

PACKED = frozenset({"linear", *(f"{conv}{n}d" for conv in ("conv", "conv_transpose") for n in (1, 2, 3))})
"""Ops whose weight and bias are in a packed object; torch has an `…_unpack` for each."""

_OBJECTS = {"LinearPackedParamsBase": "linear", **{f"Conv{n}dPackedParamsBase": f"conv{n}d" for n in (2, 3)}}
"""The op for each type of packed object in a module."""


def unpack(stem: str, packed: Any) -> tuple[Any, Any]:
    """Weight and bias of the packed object of a `linear`, `conv2d`, …"""
    with _disable_current_modes():  # a fake tensor cannot be quantized
        weight, bias = getattr(torch.ops.quantized, f"{stem}_unpack")(packed)[:2]
    return weight, bias


def unpacked(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Name and value of the packed tensors of one of torch's own quantized modules, without submodules."""
    if isinstance(module, InterpretedModule):
        weights = module.script_attributes.get("_packed_params")
        if isinstance(weights, PackedWeights):
            yield "weight", weights.weight
            if weights.bias is not None:
                yield "bias", weights.bias
        return
    if isinstance(module, torch.jit.ScriptModule):
        packed = module._c.getattr("_packed_params") if module._c.hasattr("_packed_params") else None
    elif type(module).__module__.startswith("torch.ao."):
        packed = module.__dict__.get("_packed_params")
    else:
        return
    stem = _OBJECTS.get(packed._type().name()) if isinstance(packed, torch.ScriptObject) else None
    if stem is None:
        return
    for name, tensor in zip(("weight", "bias"), unpack(stem, packed), strict=True):
        if tensor is not None:
            yield name, tensor
