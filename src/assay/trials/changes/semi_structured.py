"""Using weights that are sparse already: two of every four are zero."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from assay.document.trials import ROUNDING
from assay.trials.change import Change, NotApplicable, register
from assay.trials.changes.dry_pass import RECORDED_PASS_IMPORTS, device_of
from assay.trials.changes.plain_linears import LINEARS, linear_layers
from assay.trials.runnable import Runnable


def is_two_of_four(weight: Any) -> bool:
    """Whether at least two of every four weights of a row are zero, and the sizes suit the kernels."""
    fits = weight.shape[0] % 32 == 0 and weight.shape[1] % 64 == 0 and weight.dtype in (torch.float16, torch.bfloat16)
    return fits and bool(((weight.unflatten(1, (-1, 4)) != 0).sum(-1) <= 2).all())


def sparse_24(runnable: Runnable) -> Runnable:
    """The model with its 2:4 sparse weights stored as such."""
    if device_of(runnable) != "cuda" or torch.cuda.get_device_capability() < (8, 0):
        raise NotApplicable("2:4 sparsity requires an NVIDIA GPU of compute capability 8.0 or later")
    layers = [layer for layer in linear_layers(runnable) if is_two_of_four(layer.weight)]
    if not layers:
        raise NotApplicable("no float16 or bfloat16 weight of a Linear layer is 2:4 sparse")
    for layer in layers:
        stored = torch.sparse.to_sparse_semi_structured(layer.weight.detach())
        layer.weight = nn.Parameter(stored, requires_grad=False)
    return runnable


register(
    Change(
        name="sparse_24",
        summary="Store weights that are 2:4 sparse already in the format of sparse tensor cores",
        codes=("W205",),
        effect=ROUNDING,
        apply=sparse_24,
        parts=(*LINEARS, is_two_of_four),
        imports=RECORDED_PASS_IMPORTS,
        stage="quantization",
    )
)
