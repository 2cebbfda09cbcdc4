"""Padding sizes to multiples of 64, which suit the tiles of matrix products."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from assay.document.trials import ROUNDING
from assay.trials.change import Change, NotApplicable, register
from assay.trials.changes.dry_pass import (
    RECORDED_PASS_IMPORTS,
    RecordedPass,
    dry_outputs,
    has_hooks,
    largest_error,
    require_modules,
)
from assay.trials.changes.plain_linears import LINEARS, linear_layers
from assay.trials.runnable import Runnable


class PaddedLinear(nn.Linear):  # type: ignore[misc]
    """A Linear layer whose weight has more rows than it has outputs."""

    def forward(self, x: Any) -> Any:
        """The product without the added outputs."""
        return nn.functional.linear(x, self.weight, self.bias)[..., : self.out_features]


def padded(tensor: Any, dim: int, multiple: int = 64) -> Any:
    """A parameter with zeros added so that its size along `dim` is a multiple."""
    missing = -tensor.shape[dim] % multiple
    zeros = tensor.new_zeros([missing if each == dim else size for each, size in enumerate(tensor.shape)])
    return nn.Parameter(torch.cat([tensor.detach(), zeros], dim), requires_grad=tensor.requires_grad)


def vocabulary_layers(runnable: Runnable) -> list[Any]:
    """The Linear layers with one output per token of a vocabulary whose size is not a multiple of 64."""
    tables = [module for module in runnable.model.modules() if isinstance(module, nn.Embedding)]
    sizes = {table.num_embeddings for table in tables}
    layers = [layer for layer in linear_layers(runnable) if layer.out_features % 64]
    found = [layer for layer in layers if layer.out_features in sizes or layer.out_features > 8192]
    if not found:
        raise NotApplicable("no Linear layer has an output per token of a vocabulary that is not a multiple of 64")
    return found


def pad_vocabulary(runnable: Runnable) -> Runnable:
    """The model with its vocabulary padded to a multiple of 64, and outputs of the same shape."""
    layers = vocabulary_layers(runnable)
    before = dry_outputs(runnable)
    for layer in layers:
        weight = padded(layer.weight, 0)
        for module in runnable.model.modules():
            if isinstance(module, nn.Embedding) and module.weight is layer.weight:
                module.weight = weight  # tied weights stay tied
        layer.weight = weight
        layer.bias = None if layer.bias is None else padded(layer.bias, 0)
        layer.__class__ = PaddedLinear
    if largest_error(before, dry_outputs(runnable)) > 1e-2:
        raise NotApplicable("the model uses its vocabulary in a way that padding would change")
    return runnable


def next_layer(watched: Any, call: Any, elementwise: Any) -> Any:
    """The only module that reads the output of `call`, beyond element-wise modules; None if there is none."""
    consumers = {id(each.inputs[0]): each for each in watched.calls if each.inputs}
    for _ in range(4):
        output = call.outputs[0]
        call = consumers.get(id(output))
        inplace = {each.module for each in watched.calls if each.outputs and each.outputs[0] is output}
        if call is None or set(watched.readers(output)) - inplace != {call.module} or has_hooks(call.module):
            return None
        if type(call.module) not in elementwise:
            return call.module
    return None


def hidden_pairs(runnable: Runnable) -> list[tuple[Any, Any]]:
    """Linear layers joined by element-wise modules only, if the size between is not a multiple of 64."""
    plain = set(linear_layers(runnable))
    elementwise = {nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.LeakyReLU, nn.ELU, nn.Hardswish, nn.Mish}
    elementwise |= {nn.ReLU6, nn.Hardtanh, nn.Softplus, nn.Identity, nn.Dropout}
    watched = RecordedPass(runnable)
    pairs = []
    for call in watched.calls:
        first = call.module
        if (
            first in plain
            and len(watched.calls_of(first)) == 1
            and first.out_features > 64
            and first.out_features % 64
        ):
            second = next_layer(watched, call, elementwise)
            if second in plain and len(watched.calls_of(second)) == 1:
                pairs.append((first, second))
    return pairs


def pad_channels(runnable: Runnable) -> Runnable:
    """The model with hidden sizes between two Linear layers padded to multiples of 64."""
    require_modules(runnable)
    pairs = hidden_pairs(runnable)
    if not pairs:
        raise NotApplicable("no hidden size between two Linear layers can be padded to a multiple of 64")
    for first, second in pairs:
        first.weight = padded(first.weight, 0)
        first.bias = None if first.bias is None else padded(first.bias, 0)
        second.weight = padded(second.weight, 1)
        first.out_features = second.in_features = first.weight.shape[0]
    return runnable


register(
    Change(
        name="pad_vocabulary",
        summary="Pad the output projection onto the vocabulary to a multiple of 64, and cut the added logits off",
        codes=("C302",),
        effect=ROUNDING,
        apply=pad_vocabulary,
        parts=(*LINEARS, PaddedLinear, padded, vocabulary_layers),
        imports=RECORDED_PASS_IMPORTS,
    )
)
register(
    Change(
        name="pad_channels",
        summary="Pad hidden sizes between two Linear layers to multiples of 64",
        codes=("C301",),
        effect=ROUNDING,
        apply=pad_channels,
        parts=(*LINEARS, padded, next_layer, hidden_pairs),
        imports=RECORDED_PASS_IMPORTS,
    )
)
