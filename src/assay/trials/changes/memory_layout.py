"""Storing images and convolution weights with channels last."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from assay.document.trials import ROUNDING
from assay.trials.change import Change, NotApplicable, register
from assay.trials.changes.dry_pass import DRY_PASS, DRY_PASS_IMPORTS, map_tensors, require_modules, tensors_in
from assay.trials.runnable import Runnable


def with_channels_last(tensor: Any) -> Any:
    """The tensor with channels last if it has the dimensions of images or volumes."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if tensor.dim() not in formats or not tensor.is_floating_point():
        return tensor
    return tensor.contiguous(memory_format=formats[tensor.dim()])


def channels_last(runnable: Runnable) -> Runnable:
    """The model and its inputs with channels last."""
    require_modules(runnable)
    kinds = (nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d, nn.ConvTranspose3d)
    convolutions = [module for module in runnable.model.modules() if isinstance(module, kinds)]
    if not convolutions:
        raise NotApplicable("the model has no 2-D or 3-D convolutions")
    weights = [convolution.weight for convolution in convolutions]
    inputs = tensors_in((runnable.args, runnable.kwargs))
    if all(with_channels_last(tensor).stride() == tensor.stride() for tensor in (*weights, *inputs)):
        raise NotApplicable("the weights of convolutions and the inputs have channels last already")
    for weight in weights:
        weight.data = with_channels_last(weight.data)
    runnable.args, runnable.kwargs = map_tensors(with_channels_last, (runnable.args, runnable.kwargs))
    return runnable


register(
    Change(
        name="channels_last",
        summary="Store images and the weights of convolutions with channels last",
        codes=("C210", "C303"),
        effect=ROUNDING,
        apply=channels_last,
        parts=(*DRY_PASS, with_channels_last),
        imports=DRY_PASS_IMPORTS,
        stage="layout",
    )
)
