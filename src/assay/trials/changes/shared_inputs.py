"""Fusing Linear layers that receive the same input, such as the projections to queries, keys and values."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from assay.document.trials import ROUNDING
from assay.trials.change import Change, NotApplicable, register
from assay.trials.changes.dry_pass import RECORDED_PASS_IMPORTS, RecordedPass
from assay.trials.changes.plain_linears import LINEARS, linear_layers
from assay.trials.runnable import Runnable


class SharedProduct:
    """The product of one input with the weights of several layers, kept until each layer has taken its part."""

    def __init__(self, layers: list[Any]) -> None:
        self.weight = torch.cat([layer.weight.detach() for layer in layers])
        biases = [layer.bias for layer in layers]
        zeros = [layer.weight.new_zeros(layer.out_features) for layer in layers]
        filled = [zero if bias is None else bias.detach() for bias, zero in zip(biases, zeros, strict=True)]
        self.bias = None if all(bias is None for bias in biases) else torch.cat(filled)
        self.sizes = [layer.out_features for layer in layers]
        self.parts: dict[int, Any] = {}
        self.source: Any = None

    def take(self, index: int, x: Any) -> Any:
        """The part of layer `index` for input `x`, which is computed with all others unless it was before."""
        source = (x, None if x.is_inference() else x._version)
        if self.source is None or self.source[0] is not x or self.source[1] != source[1] or index not in self.parts:
            product = nn.functional.linear(x, self.weight, self.bias)
            self.parts = dict(enumerate(product.split(self.sizes, -1)))
            self.source = source
        part = self.parts.pop(index)
        self.source = self.source if self.parts else None
        return part


class SharedInputLinear(nn.Linear):  # type: ignore[misc]
    """A Linear layer that takes its part of a product it shares with others."""

    def forward(self, x: Any) -> Any:
        """The part of the shared product; the plain product where gradients or a compiler need it."""
        trained = torch.is_grad_enabled() and self.weight.requires_grad
        if trained or torch.compiler.is_dynamo_compiling():
            return nn.functional.linear(x, self.weight, self.bias)
        return self.shared.take(self.index, x)


def sibling_layers(runnable: Runnable) -> list[list[Any]]:
    """Groups of plain Linear layers that always receive the same input in the same call of their parent."""
    plain = {id(layer) for layer in linear_layers(runnable)}
    groups: dict[tuple[int, int], list[Any]] = {}
    for call in RecordedPass(runnable).calls:
        if id(call.module) in plain and len(call.inputs) == 1:
            groups.setdefault((id(call.parent), id(call.inputs[0])), []).append(call.module)
    sets: dict[int, set[tuple[int, ...]]] = {}
    for group in groups.values():
        for layer in group:
            sets.setdefault(id(layer), set()).add(tuple(sorted(id(each) for each in group)))
    distinct = {tuple(sorted(id(each) for each in group)): group for group in groups.values()}
    stable = [group for group in distinct.values() if all(len(sets[id(layer)]) == 1 for layer in group)]
    return [group for group in stable if 1 < len(group) == len({id(layer) for layer in group})]


def fuse_qkv(runnable: Runnable) -> Runnable:
    """The model with one product for Linear layers that receive the same input."""
    groups = sibling_layers(runnable)
    if not groups:
        raise NotApplicable("no Linear layers of one module receive the same input")
    for layers in groups:
        shared = SharedProduct(layers)
        for index, (layer, weight) in enumerate(zip(layers, shared.weight.split(shared.sizes), strict=True)):
            layer.weight.data = weight  # a view: the weights are stored once
            layer.shared, layer.index = shared, index
            layer.__class__ = SharedInputLinear
    return runnable


register(
    Change(
        name="fuse_qkv",
        summary="Fuse Linear layers that receive the same input into one product",
        codes=("C104",),
        effect=ROUNDING,
        apply=fuse_qkv,
        parts=(*LINEARS, SharedProduct, SharedInputLinear, sibling_layers),
        imports=RECORDED_PASS_IMPORTS,
        stage="fusion",
    )
)
