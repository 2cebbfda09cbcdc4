"""The shape of an exported program's JSON, as far as it is read. Unions are mappings with one `as_…` key."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

Union = dict[str, Any]


class TensorMeta(Struct):
    """A tensor's type; sizes and strides are unions of a number and an expression."""

    dtype: int
    sizes: list[Union]
    strides: list[Union] = field(default_factory=list)
    storage_offset: Union = field(default_factory=dict)
    requires_grad: bool = False
    layout: int = 7


class NamedArgument(Struct):
    """An argument of an operation under its schema name; higher-order operators leave names empty."""

    name: str
    arg: Union


class GraphNode(Struct):
    """One operation of the graph."""

    target: str
    inputs: list[NamedArgument]
    outputs: list[Union]
    metadata: dict[str, Any] = field(default_factory=dict)


class Graph(Struct):
    """Nodes in order of execution, and the types of every value they name."""

    inputs: list[Union]
    outputs: list[Union]
    nodes: list[GraphNode]
    tensor_values: dict[str, TensorMeta]
    sym_int_values: dict[str, Union] = field(default_factory=dict)
    sym_float_values: dict[str, Union] = field(default_factory=dict)
    sym_bool_values: dict[str, Union] = field(default_factory=dict)


class GraphSignature(Struct):
    """What each graph input is: a parameter, a buffer, a constant or the user's."""

    input_specs: list[dict[str, dict[str, Any]]]


class ModuleCall(Struct):
    """A module of the original model by its path."""

    fqn: str


class GraphModule(Struct):
    """The graph with its signature and the paths of all modules."""

    graph: Graph
    signature: GraphSignature
    module_call_graph: list[ModuleCall] = field(default_factory=list)


class SchemaVersion(Struct):
    """Which schema the file follows."""

    major: int = 0


class ExportedProgram(Struct):
    """The whole program."""

    graph_module: GraphModule
    schema_version: SchemaVersion = field(default_factory=SchemaVersion)
    torch_version: str | None = None


class Payload(Struct):
    """Where one tensor's bytes lie in the archive; tied tensors name the same place."""

    path_name: str
    is_param: bool = False
    tensor_meta: TensorMeta | None = None


class PayloadConfig(Struct):
    """The tensors of one folder of the archive by name."""

    config: dict[str, Payload] = field(default_factory=dict)
