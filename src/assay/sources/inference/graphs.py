"""Inputs that a traced or exported graph remembers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from assay.sources.inference.guess import Guess
from assay.sources.needs import is_tensor, need
from assay.sources.tensors import TensorSpec, dtype_name


def from_graph(module: Any) -> Iterator[Guess]:
    """The one guess that a scripted or fx graph allows, where it knows every input."""
    torch = need("torch")
    if isinstance(module, torch.jit.ScriptModule):
        known = _script_inputs(module)
    elif isinstance(module, torch.fx.GraphModule):
        known = [_placeholder(node) for node in module.graph.nodes if node.op == "placeholder"]
    else:
        return
    specs = [spec for spec in known if spec is not None]
    if specs and len(specs) == len(known):
        yield Guess(tuple(specs), "its graph")


def _script_inputs(module: Any) -> list[TensorSpec | None]:
    """The types of the graph's inputs; tracing notes sizes, scripting and saving do not."""
    types = [value.type() for value in list(module.graph.inputs())[1:]]
    return [_spec(kind.sizes(), kind.dtype()) if kind.kind() == "TensorType" else None for kind in types]


def _placeholder(node: Any) -> TensorSpec | None:
    example = node.meta.get("val", node.meta.get("tensor_meta"))
    if example is None or not (is_tensor(example) or hasattr(example, "shape")):
        return None
    return _spec(example.shape, example.dtype)


def _spec(sizes: Any, dtype: Any) -> TensorSpec | None:
    name = dtype_name(str(dtype))
    if sizes is None or name is None or not all(isinstance(size, int) for size in sizes):
        return None
    return TensorSpec(tuple(sizes), name)
