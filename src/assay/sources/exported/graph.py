"""The graph of an exported program as a flat list of steps over numbered values.

Wrappers that only change a mode (autocast, no_grad) are inlined; a control-flow operator stays one step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from assay.checkpoint.formats.pt2_schema import Graph, GraphModule, GraphNode, NamedArgument, Union
from assay.checkpoint.formats.pt2_values import SymbolicSizes, plain_argument
from assay.document.rows import TensorType
from assay.messages import plural

_OPS = "torch.ops."
_SIZES_ONLY = "torch.ops.aten.sym_"
_WRAPPERS = ("torch.ops.higher_order.wrap_with_", "torch.ops.higher_order.wrap")
_ROLES = {"parameter": "parameter", "buffer": "buffer", "tensor_constant": "buffer", "user_input": "input"}


class Value(NamedTuple):
    """A tensor that flows through the graph."""

    type: TensorType
    role: str


class Step(NamedTuple):
    """One op; its tensors are pairs of (argument name, number of the value)."""

    target: str
    """The dispatcher's name: `aten.conv2d.default`."""
    tensors: list[tuple[str, int]]
    attributes: dict[str, Any]
    outputs: list[int]
    stack: str
    """The modules it ran in, in the file's notation."""


class Program(NamedTuple):
    """All steps and values, and the numbers of the values that are the program's inputs and outputs."""

    steps: list[Step]
    values: list[Value]
    inputs: list[tuple[str, int]]
    outputs: list[int]
    notes: tuple[str, ...]


def flatten(module: GraphModule, sizes: SymbolicSizes) -> Program:
    """The whole program, its steps in order."""
    flattening = _Flattening(sizes)
    roles = dict(_roles(module.signature.input_specs))
    scope = flattening.scope(module.graph, {}, roles)
    flattening.walk(module.graph, scope, "")
    inputs = [
        (name, scope.values[name])
        for item in module.graph.inputs
        for name in _names(item)
        if roles.get(name) == "input"
    ]
    outputs = [scope.values[name] for item in module.graph.outputs for name in _names(item)]
    return Program(flattening.steps, flattening.values, inputs, outputs, flattening.notes())


def _roles(specs: list[dict[str, dict[str, Any]]]) -> Iterator[tuple[str, str]]:
    """The name of each graph input with its role."""
    for spec in specs:
        for kind, body in spec.items():
            argument = body.get("arg") or {}
            name = argument.get("name") or next(iter(_names(argument)), None)
            if kind in _ROLES and name is not None:
                yield name, _ROLES[kind]


class _Scope(NamedTuple):
    """The values and symbolic numbers of a graph, by name."""

    values: dict[str, int]
    symbols: dict[str, Any]


class _Flattening:
    """Collects the steps and values of a graph and of the wrappers inside it."""

    def __init__(self, sizes: SymbolicSizes) -> None:
        self.steps: list[Step] = []
        self.values: list[Value] = []
        self._sizes = sizes
        self._bodies = 0

    def scope(self, graph: Graph, outer_values: Mapping[str, int], roles: Mapping[str, str]) -> _Scope:
        """The scope of `graph`: a new value for each of its names, except for `outer_values`, which keep theirs."""
        values = dict(outer_values)
        for name, meta in graph.tensor_values.items():
            if name not in values:
                values[name] = len(self.values)
                self.values.append(Value(self._sizes.tensor_type(meta), roles.get(name, "activation")))
        numbers = {**graph.sym_int_values, **graph.sym_float_values, **graph.sym_bool_values}
        return _Scope(values, {name: self._number(value) for name, value in numbers.items()})

    def walk(self, graph: Graph, scope: _Scope, stack: str) -> None:
        """Append the steps of `graph`; `stack` is used for nodes without a module stack of their own."""
        for node in graph.nodes:
            here = str(node.metadata.get("nn_module_stack") or stack)
            if node.target.startswith(_WRAPPERS):
                self._inline(node, scope, here)
            elif node.target.startswith(_OPS) and not node.target.startswith(_SIZES_ONLY):
                self.steps.append(self._step(node, scope, here))

    def notes(self) -> tuple[str, ...]:
        """A note about the operators whose bodies are not among the steps."""
        bodies = plural(self._bodies, "body", "bodies")
        return (f"{bodies} of control-flow operators not counted",) if self._bodies else ()

    def _inline(self, node: GraphNode, scope: _Scope, stack: str) -> None:
        """Walk a wrapper's body as if it were part of the outer graph."""
        body_index = ["as_graph" in item.arg for item in node.inputs].index(True)
        body = msgspec.convert(node.inputs[body_index].arg["as_graph"]["graph"], Graph)
        arguments = [scope.values[name] for item in node.inputs[body_index + 1 :] for name in _names(item.arg)]
        parameters = [name for item in body.inputs for name in _names(item)]
        outputs = [scope.values[name] for item in node.outputs for name in _names(item)]
        returned = [name for item in body.outputs for name in _names(item)]
        outer_values = dict(zip(parameters, arguments, strict=False))
        results = zip(returned, outputs, strict=False)
        outer_values.update({name: value for name, value in results if name not in outer_values})
        self.walk(body, self.scope(body, outer_values, {}), stack)

    def _step(self, node: GraphNode, scope: _Scope, stack: str) -> Step:
        tensors: list[tuple[str, int]] = []
        attributes: dict[str, Any] = {}
        for position, item in enumerate(node.inputs):
            operands = [(label, scope.values[name]) for label, name in _labelled(_label(item, position), item.arg)]
            tensors += operands
            if not operands and "as_none" not in item.arg:
                self._bodies += "as_graph" in item.arg
                attributes[_label(item, position)] = plain_argument(item.arg, scope.symbols)
        outputs = [scope.values[name] for item in node.outputs for name in _names(item)]
        return Step(node.target.removeprefix(_OPS), tensors, attributes, outputs, stack)

    def _number(self, value: Union) -> Any:
        """The value of a symbolic number, from its hint if it has one."""
        if "as_expr" not in value:
            return next(iter(value.values()), None)
        hint = value["as_expr"].get("hint") or {}
        return self._sizes.number(value) if "as_int" in hint or not hint else next(iter(hint.values()))


def _label(item: NamedArgument, position: int) -> str:
    return item.name or f"arg{position}"


def _names(argument: Mapping[str, Any]) -> list[str]:
    """The names of the tensors in an argument, in order."""
    return [name for _, name in _labelled("", argument)]


def _labelled(label: str, argument: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every tensor in an argument as (label, name); the items of a list are `label[0]`, `label[1]`."""
    for kind, value in argument.items():
        if kind == "as_tensor":
            yield label, value["name"]
        elif kind == "as_optional_tensor":
            yield from _labelled(label, value)
        elif kind == "as_tensors":
            yield from ((f"{label}[{index}]", item["name"]) for index, item in enumerate(value))
        elif kind == "as_optional_tensors":
            for index, item in enumerate(value):
                yield from _labelled(f"{label}[{index}]", item)
        elif kind == "as_nested_tensors":
            for index, items in enumerate(value):
                yield from _labelled(f"{label}[{index}]", {"as_tensors": items})
