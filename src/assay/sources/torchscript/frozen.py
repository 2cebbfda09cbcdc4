"""The layers of a frozen file: freezing replaces modules by calls of operators with constant weights."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from assay.sources.torchscript.program import Function

_CONVOLUTIONS = {f"conv{dims}d": f"Conv{dims}d" for dims in (1, 2, 3)}
_LAYERS = {**_CONVOLUTIONS, "linear": "Linear", "embedding": "Embedding", "layer_norm": "LayerNorm"}
"""The class of layer that an operator is, by its name."""
_GROUPS = 6
"""The position of the number of groups among the arguments of a convolution."""


def layers_in_code(function: Function, constants: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What stands for the layers that a method computes with constants, in order, each under the constant's name."""
    for statement in function.node.body:
        for call in (node for node in ast.walk(statement) if isinstance(node, ast.Call)):
            name = ast.unparse(call.func).removeprefix("torch.")
            weights = (ast.unparse(each) for each in call.args if isinstance(each, ast.Attribute))
            weight = next((each for each in weights if each.removeprefix("CONSTANTS.") in constants), "")
            if name in _LAYERS and weight:
                layer = SimpleNamespace(
                    original_name=_LAYERS[name], weight=constants[weight.removeprefix("CONSTANTS.")]
                )
                if name in _CONVOLUTIONS:
                    layer.in_channels = layer.weight.shape[1] * _groups(call)
                yield weight, layer


def _groups(call: ast.Call) -> int:
    groups = call.args[_GROUPS] if len(call.args) > _GROUPS else None
    return groups.value if isinstance(groups, ast.Constant) and isinstance(groups.value, int) else 1
