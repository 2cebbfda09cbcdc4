"""Substitutes for the model's tensors during a pass: on meta, fake, in another dtype, or with made-up values.

The model's own tensors are never converted: the modules refer to the substitutes until the guard restores them. A
tied tensor gets one substitute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from assay.recorder import inventory
from assay.recorder.storages import lacks_meta_form

Convert = Callable[[torch.Tensor], torch.Tensor]

MADE_UP_LIMIT = 4 << 30
"""Models with more bytes of weights are not filled with made-up values."""


def swap(modules: list[nn.Module], convert: Convert) -> None:
    """Replace every parameter and buffer of `modules` by its substitute; must be called inside the guard."""
    substitutes: dict[int, torch.Tensor] = {}
    for module in modules:
        if isinstance(module, torch.jit.ScriptModule):
            continue
        for name, role, tensor in list(inventory.entries(module)):
            if id(tensor) not in substitutes:
                substitutes[id(tensor)] = _like(tensor, convert(tensor))
            table = module._parameters if role == "parameter" else module._buffers
            table[name] = substitutes[id(tensor)]
        if isinstance(module, nn.RNNBase):
            # Otherwise every pass would begin by joining the weights, which `to` does once.
            module._init_flat_weights()


def to_meta(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor on meta; integer tensors keep their values, on the CPU, because control flow depends on them."""
    if tensor.is_floating_point() or tensor.is_complex():
        return without_data(tensor)
    return tensor if tensor.is_meta else tensor.cpu()


def without_data(tensor: torch.Tensor) -> torch.Tensor:
    """A meta tensor of the same shape, strides and dtype; `tensor` itself if it is on meta already.

    A tensor that cannot be on meta is copied.
    """
    if tensor.is_meta:
        return tensor
    if lacks_meta_form(tensor):
        return tensor.detach().clone()
    if tensor.layout is not torch.strided:
        return tensor.detach().to("meta")
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def made_up(tensor: torch.Tensor) -> torch.Tensor:
    """Values for a meta tensor: zeros for integers, ones for vectors (norms and biases), else small noise."""
    if not tensor.is_meta:
        return tensor
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return torch.zeros(tensor.shape, dtype=tensor.dtype)
    noise = torch.Generator().manual_seed(0)
    if tensor.dim() < 2:
        return torch.ones(tensor.shape, dtype=tensor.dtype)
    try:
        return torch.empty(tensor.shape, dtype=tensor.dtype).normal_(0.0, 0.02, generator=noise)
    except (RuntimeError, NotImplementedError):  # 8-bit types have no normal_
        return torch.zeros(tensor.shape, dtype=tensor.dtype)


def placed(device: str | None, dtype: torch.dtype | None) -> Convert:
    """A conversion to `device` and, for floating-point tensors, to `dtype`."""

    def convert(tensor: torch.Tensor) -> torch.Tensor:
        new_dtype = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
        return tensor.detach().to(device=device or tensor.device, dtype=new_dtype)

    return convert


def _like(original: torch.Tensor, substitute: torch.Tensor) -> torch.Tensor:
    """`substitute`, as a parameter if `original` is one."""
    if substitute is original or not isinstance(original, nn.Parameter):
        return substitute
    trainable: Any = original.requires_grad and (substitute.is_floating_point() or substitute.is_complex())
    return nn.Parameter(substitute, requires_grad=trainable)
