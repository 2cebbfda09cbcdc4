"""Other tensors in the model's place for the time of a pass: on meta, fake, in another dtype, made up.

The model's own tensors are never converted: the module's tables point elsewhere, and the guard points them
back. A tied tensor gets one substitute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from assay.errors import InputsError
from assay.recorder import inventory

Convert = Callable[[torch.Tensor], torch.Tensor]

MADE_UP_LIMIT = 4 << 30
"""Bytes of weights beyond which a model is not filled with made-up values."""


def swap(modules: list[nn.Module], convert: Convert) -> None:
    """Point every parameter and buffer of `modules` at its substitute; to be called inside the guard."""
    done: dict[int, torch.Tensor] = {}
    for module in modules:
        if isinstance(module, torch.jit.ScriptModule):
            continue
        for name, role, tensor in list(inventory.entries(module)):
            if id(tensor) not in done:
                done[id(tensor)] = _like(tensor, convert(tensor))
            table = module._parameters if role == "parameter" else module._buffers
            table[name] = done[id(tensor)]


def to_meta(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor without data; whole numbers keep theirs, for code looks at them."""
    return without_data(tensor) if tensor.is_floating_point() or tensor.is_complex() else tensor


def without_data(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor that looks the same on the meta device; the very same where it is there already."""
    if tensor.is_meta:
        return tensor
    if tensor.layout is not torch.strided:
        return tensor.detach().to("meta")
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def made_up(tensor: torch.Tensor) -> torch.Tensor:
    """Real values for a tensor that has none: small noise, ones for norms and biases left at zero."""
    if not tensor.is_meta:
        return tensor
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return torch.zeros(tensor.shape, dtype=tensor.dtype)
    noise = torch.Generator().manual_seed(0)
    if tensor.dim() < 2:
        return torch.ones(tensor.shape, dtype=tensor.dtype)
    try:
        return torch.empty(tensor.shape, dtype=tensor.dtype).normal_(0.0, 0.02, generator=noise)
    except (RuntimeError, NotImplementedError):  # narrow types have no normal_
        return torch.zeros(tensor.shape, dtype=tensor.dtype)


def placed(device: str | None, dtype: torch.dtype | None) -> Convert:
    """A conversion to another device and, for real numbers, another dtype."""

    def convert(tensor: torch.Tensor) -> torch.Tensor:
        wanted = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
        return tensor.detach().to(device=device or tensor.device, dtype=wanted)

    return convert


def dtype_named(name: str | None) -> torch.dtype | None:
    """The dtype of that name: `dtype_named("bfloat16") is torch.bfloat16`."""
    if name is None:
        return None
    found = getattr(torch, name.removeprefix("torch."), None)
    if not isinstance(found, torch.dtype):
        raise InputsError(f"no dtype is called {name!r}: say float32, bfloat16, float16, …")
    return found


def _like(original: torch.Tensor, substitute: torch.Tensor) -> torch.Tensor:
    if substitute is original or not isinstance(original, nn.Parameter):
        return substitute
    trainable: Any = original.requires_grad and (substitute.is_floating_point() or substitute.is_complex())
    return nn.Parameter(substitute, requires_grad=trainable)
