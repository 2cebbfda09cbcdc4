"""Inputs stored in a model: its own example, or the input types in its traced or exported graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from assay.errors import UserCodeError
from assay.sources.inference.guess import Guess
from assay.sources.needs import is_tensor, need
from assay.sources.tensors import TensorSpec, dtype_name
from assay.sources.usercode import guarded

_ATTRIBUTES = ("example_input_array", "dummy_inputs")


def declared(module: Any, config: Any | None) -> Guess | None:
    """The example inputs in the module's attributes, or None.

    They are ignored if there is a transformers config, which is more reliable: every transformers model has
    `dummy_inputs`, mostly three rows of token ids whatever the model takes.
    """
    if config is None:
        for name in _ATTRIBUTES:
            guess = _example(name, read_attribute(module, name))
            if guess is not None:
                return guess
    return None


def read_attribute(module: Any, name: str) -> Any:
    """The attribute; None if it does not exist or its property raises."""
    try:
        with guarded(name):
            return getattr(module, name, None)
    except UserCodeError:
        return None


def _example(name: str, value: Any) -> Guess | None:
    """The attribute's value as a guess; None if it cannot be arguments."""
    if is_tensor(value):
        return Guess(_specs([(None, value)]), name, ((value,), {}))
    if isinstance(value, Mapping) and value and all(isinstance(key, str) for key in value):
        return Guess(_specs(value.items()), name, ((), dict(value)))
    if isinstance(value, (tuple, list)) and value:
        if len(value) == 2 and isinstance(value[0], (tuple, list)) and isinstance(value[1], Mapping):
            pairs = [*((None, item) for item in value[0]), *value[1].items()]
            return Guess(_specs(pairs), name, (tuple(value[0]), dict(value[1])))
        return Guess(_specs((None, item) for item in value), name, (tuple(value), {}))
    return None


def _specs(pairs: Any) -> tuple[TensorSpec, ...]:
    """The specs of the tensors among the values."""
    return tuple(
        TensorSpec(tuple(value.shape), dtype_name(str(value.dtype)) or str(value.dtype), name)
        for name, value in pairs
        if is_tensor(value)
    )


def from_graph(module: Any) -> Iterator[Guess]:
    """One guess from a scripted or fx graph, if the graph has the sizes of every input."""
    torch = need("torch")
    if isinstance(module, torch.jit.ScriptModule):
        inputs = _script_inputs(module)
    elif isinstance(module, torch.fx.GraphModule):
        inputs = [_placeholder(node) for node in module.graph.nodes if node.op == "placeholder"]
    else:
        return
    specs = [spec for spec in inputs if spec is not None]
    if specs and len(specs) == len(inputs):
        yield Guess(tuple(specs), "its graph")


def _script_inputs(module: Any) -> list[TensorSpec | None]:
    """The types of the graph's inputs; None for an input without sizes, which only tracing records."""
    types = [value.type() for value in list(module.graph.inputs())[1:]]
    return [_spec(kind.sizes(), kind.dtype()) if kind.kind() == "TensorType" else None for kind in types]


def _placeholder(node: Any) -> TensorSpec | None:
    example = node.meta.get("val", node.meta.get("tensor_meta"))
    return _spec(example.shape, example.dtype) if hasattr(example, "shape") else None


def _spec(sizes: Any, dtype: Any) -> TensorSpec | None:
    name = dtype_name(str(dtype))
    if sizes is None or name is None or not all(isinstance(size, int) for size in sizes):
        return None
    return TensorSpec(tuple(sizes), name)
