"""Folding BatchNorm into the layer before it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from assay.document.trials import ROUNDING
from assay.trials.change import Change, NotApplicable, register
from assay.trials.changes.dry_pass import (
    RECORDED_PASS,
    RECORDED_PASS_IMPORTS,
    RecordedPass,
    has_hooks,
    require_modules,
)
from assay.trials.runnable import Runnable


def foldable(module: Any, watched: Any) -> bool:
    """Whether the module runs exactly once, without hooks, and nothing else reads its parameters and statistics."""
    tensors = [*module.parameters(), *module.buffers()]
    owned = all(reader is module for tensor in tensors for reader in watched.readers(tensor))
    return owned and not has_hooks(module) and len(watched.calls_of(module)) == 1


def followed_pairs(watched: Any) -> list[tuple[Any, Any]]:
    """Layers and the BatchNorm layers in eval mode that are the only readers of their outputs, as executed."""
    dims = {nn.Conv1d: 3, nn.Conv2d: 4, nn.Conv3d: 5, nn.Linear: 2}
    dims |= {nn.ConvTranspose1d: 3, nn.ConvTranspose2d: 4, nn.ConvTranspose3d: 5}
    norms = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    made = {id(call.outputs[0]): call for call in watched.calls if type(call.module) in dims and call.outputs}
    pairs = []
    for call in watched.calls:
        norm = call.module
        before = made.get(id(call.inputs[0])) if call.inputs else None
        if before is None or type(norm) not in norms or norm.training or norm.running_mean is None:
            continue
        output = before.outputs[0]
        if output.dim() == dims[type(before.module)] and set(watched.readers(output)) == {norm}:
            pairs.append((before.module, norm))
    return [pair for pair in pairs if foldable(pair[0], watched) and foldable(pair[1], watched)]


def fold_pair(layer: Any, norm: Any) -> None:
    """Give `layer` weights that include the scale and shift of `norm`, computed in float64."""
    size = norm.num_features
    scale = (norm.running_var.double() + norm.eps).rsqrt()
    scale = scale if norm.weight is None else scale * norm.weight.double()
    shift = torch.zeros_like(scale) if norm.bias is None else norm.bias.double()
    bias = torch.zeros_like(scale) if layer.bias is None else layer.bias.double()
    weight = layer.weight.double()
    if getattr(layer, "transposed", False):
        groups = layer.groups
        shaped = weight.unflatten(0, (groups, -1))  # groups, inputs per group, outputs per group, kernel
        weight = (shaped * scale.reshape(groups, 1, -1, *[1] * (weight.dim() - 2))).flatten(0, 1)
    else:
        weight = weight * scale.reshape(size, *[1] * (weight.dim() - 1))
    bias = (bias - norm.running_mean.double()) * scale + shift
    dtype, trained = layer.weight.dtype, layer.weight.requires_grad
    layer.weight = nn.Parameter(weight.to(dtype), requires_grad=trained)
    layer.bias = nn.Parameter(bias.to(dtype), requires_grad=trained)


def fold_batch_norm(runnable: Runnable) -> Runnable:
    """The model with BatchNorm layers folded into the layers before them."""
    require_modules(runnable)
    pairs = followed_pairs(RecordedPass(runnable))
    if not pairs:
        raise NotApplicable("no BatchNorm layer in eval mode is the only reader of a convolution or linear layer")
    with torch.no_grad():
        for layer, norm in pairs:
            fold_pair(layer, norm)
    folded = {id(norm) for _, norm in pairs}
    for parent in list(runnable.model.modules()):
        for name, child in list(parent._modules.items()):
            if id(child) in folded:
                parent._modules[name] = nn.Identity()
    return runnable


register(
    Change(
        name="fold_batch_norm",
        summary="Fold BatchNorm layers into the convolution or linear layers before them",
        codes=("S203",),
        effect=ROUNDING,
        apply=fold_batch_norm,
        parts=(*RECORDED_PASS, foldable, followed_pairs, fold_pair),
        imports=RECORDED_PASS_IMPORTS,
    )
)
