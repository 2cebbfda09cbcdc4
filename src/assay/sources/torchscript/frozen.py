"""The layers of a frozen file: freezing replaces modules by calls of operators with constant weights."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import torch

from assay.checkpoint.formats.torchscript import CONSTANTS
from assay.sources.torchscript.program import Function

_CONVOLUTIONS = {f"conv{dims}d": f"Conv{dims}d" for dims in (1, 2, 3)}
_LAYERS = {**_CONVOLUTIONS, "linear": "Linear", "embedding": "Embedding", "layer_norm": "LayerNorm"}
"""The class of layer that an operator is, by its name."""
_GROUPS = 6
"""The position of the number of groups among the arguments of a convolution."""
_MOST_GROUPS = 1 << 16


def layers_in_code(function: Function, constants: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What stands for the layers that a method computes with constants, in order, each under the constant's name."""
    for statement in function.node.body:
        for call in (node for node in ast.walk(statement) if isinstance(node, ast.Call)):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            constant = next(filter(None, map(_constant, call.args)), "") if name in _LAYERS else ""
            weight = constants.get(constant)
            if not isinstance(weight, torch.Tensor) or weight.dim() < (name != "layer_norm") + 1:
                continue
            layer = SimpleNamespace(original_name=_LAYERS[name], weight=weight)
            if name in _CONVOLUTIONS:
                layer.in_channels = weight.shape[1] * _groups(call)
            yield f"{CONSTANTS}.{constant}", layer


def _constant(node: ast.expr) -> str:
    """The name of a constant: `c0` of `CONSTANTS.c0`; empty for another expression."""
    is_constant = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == CONSTANTS
    return node.attr if is_constant and isinstance(node, ast.Attribute) else ""


def _groups(call: ast.Call) -> int:
    groups = call.args[_GROUPS] if len(call.args) > _GROUPS else None
    number = groups.value if isinstance(groups, ast.Constant) else 1
    return number if type(number) is int and 0 < number < _MOST_GROUPS else 1
