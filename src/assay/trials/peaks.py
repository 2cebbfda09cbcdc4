"""Peak memory of a pass: weights and inputs, and what torch allocates during the pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from assay.document.machine import unknown_figure
from assay.document.provenance import Figure
from assay.recorder import inventory, quantized
from assay.timing import resident
from assay.trials.leaves import walk
from assay.trials.runnable import Runnable


def peak_bytes(runnable: Runnable, run: Callable[[], object], device: torch.device) -> Figure:
    """Peak bytes on the device during one `run` of a runnable."""
    fixed = _fixed_bytes(runnable)
    peak = resident.of_pass(run, device, fixed)
    if device.type == "cuda" and peak.value == fixed:
        return unknown_figure("the pass allocated nothing: it ran in memory reserved earlier, as CUDA graphs do")
    return peak


def _fixed_bytes(runnable: Runnable) -> int:
    """Bytes of parameters, buffers and inputs; memory that several of them share counts once."""
    tensors = [leaf for _, leaf in walk((runnable.args, runnable.kwargs)) if isinstance(leaf, torch.Tensor)]
    packed = 0
    if isinstance(runnable.model, nn.Module):
        modules, own = inventory.members(runnable.model)
        tensors += own
        packed = sum(inventory.size_in_bytes(each) for module in modules for _, each in quantized.unpacked(module))
    stored: dict[Any, int] = {}
    for tensor in tensors:
        stored |= _stored(tensor)
    return packed + sum(stored.values())


def _stored(tensor: torch.Tensor) -> dict[Any, int]:
    """The bytes of each block of memory behind a tensor; quantized weights consist of several tensors."""
    if is_traceable_wrapper_subclass(tensor):
        inner = [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]
        return {key: size for each in inner for key, size in _stored(each).items()}
    if tensor.layout is not torch.strided or tensor.is_nested:
        return {id(tensor): inventory.size_in_bytes(tensor)}
    storage = tensor.untyped_storage()
    return {storage._cdata: storage.nbytes()}
