"""Fused operators of transformers, which a trace on the CPU records, as the operators they are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from assay.sources.torchscript.tensor_ops import TensorOps

_aten = torch.ops.aten


class _Runner:
    """Calls operators by name."""

    def __init__(self, ops: TensorOps) -> None:
        self._ops = ops

    def __getattr__(self, name: str) -> Any:
        packet = getattr(_aten, name)
        return lambda *args, **kwargs: self._ops.call(packet, args, kwargs)


def multi_head_attention(
    ops: TensorOps,
    query: Any,
    key: Any,
    value: Any,
    width: int,
    heads: int,
    weight: Any,
    bias: Any,
    out_weight: Any,
    out_bias: Any,
    mask: Any = None,
    need_weights: bool = True,
    average: bool = True,
    mask_type: int | None = None,
) -> tuple[Any, Any]:
    """`_native_multi_head_attention`: the output and, if needed, the weights of attention."""
    run = _Runner(ops)
    batch, length = query.shape[:2]
    if query is key is value:
        parts = run.chunk(run.linear(query, weight, bias), 3, -1)
    else:
        weights, biases = run.chunk(weight, 3), run.chunk(bias, 3)
        parts = [run.linear(*each) for each in zip((query, key, value), weights, biases, strict=True)]
    split = [run.transpose(run.view(each, [batch, -1, heads, width // heads]), 1, 2) for each in parts]
    shown = None if mask is None else _mask(run, mask, batch, mask_type)
    if need_weights:
        out, attention = _with_weights(run, split, shown)
        attention = run.mean(attention, [1]) if average else attention
    else:
        out, attention = run.scaled_dot_product_attention(*split, shown), None
    joined = run.reshape(run.transpose(out, 1, 2), [batch, length, width])
    return run.linear(joined, out_weight, out_bias), attention


def _mask(run: _Runner, mask: Any, batch: int, mask_type: int | None) -> Any:
    """The mask in a form that broadcasts over batch and heads; type 1 is one of keys."""
    return run.view(mask, [batch, 1, 1, mask.shape[-1]]) if mask_type == 1 and mask.dim() == 2 else mask


def _with_weights(run: _Runner, split: list[Any], mask: Any) -> tuple[Any, Any]:
    query, key, value = split
    scores = run.matmul(run.mul(query, query.shape[-1] ** -0.5), run.transpose(key, -2, -1))
    if mask is not None:
        scores = run.masked_fill(scores, mask, float("-inf")) if mask.dtype is torch.bool else run.add(scores, mask)
    attention = run.softmax(scores, -1)
    return run.matmul(attention, value), attention


def encoder_layer(
    ops: TensorOps,
    source: Any,
    width: int,
    heads: int,
    weight: Any,
    bias: Any,
    out_weight: Any,
    out_bias: Any,
    gelu: bool,
    norm_first: bool,
    epsilon: float,
    norm_weight_1: Any,
    norm_bias_1: Any,
    norm_weight_2: Any,
    norm_bias_2: Any,
    linear_weight_1: Any,
    linear_bias_1: Any,
    linear_weight_2: Any,
    linear_bias_2: Any,
    mask: Any = None,
    mask_type: int | None = None,
) -> Any:
    """`_transformer_encoder_layer_fwd`: attention and two linear layers, each with a residual and a norm."""
    run = _Runner(ops)

    def attend(tensor: Any) -> Any:
        projections = (width, heads, weight, bias, out_weight, out_bias)
        return multi_head_attention(ops, tensor, tensor, tensor, *projections, mask, False, True, mask_type)[0]

    def feed(tensor: Any) -> Any:
        hidden = run.linear(tensor, linear_weight_1, linear_bias_1)
        hidden = run.gelu(hidden) if gelu else run.relu(hidden)
        return run.linear(hidden, linear_weight_2, linear_bias_2)

    def norm_1(tensor: Any) -> Any:
        return run.layer_norm(tensor, [width], norm_weight_1, norm_bias_1, epsilon)

    def norm_2(tensor: Any) -> Any:
        return run.layer_norm(tensor, [width], norm_weight_2, norm_bias_2, epsilon)

    if norm_first:
        source = run.add(source, attend(norm_1(source)))
        return run.add(source, feed(norm_2(source)))
    source = norm_1(run.add(source, attend(source)))
    return norm_2(run.add(source, feed(source)))


FUSED: dict[str, Callable[..., Any]] = {
    "_native_multi_head_attention": multi_head_attention,
    "_transformer_encoder_layer_fwd": encoder_layer,
}
"""Fused operators by name."""
