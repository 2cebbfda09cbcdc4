"""The JSON schema of an exported program, limited to the fields that are read. A union has one `as_…` key."""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct, field

Union = dict[str, Any]


class TensorMeta(Struct):
    """A tensor's type; each size and stride is a union of an integer and an expression."""

    dtype: int
    sizes: list[Union]
    strides: list[Union] = field(default_factory=list)
    storage_offset: Union = field(default_factory=dict)
    requires_grad: bool = False
    layout: int = 7


class NamedArgument(Struct):
    """An argument of an op with its schema name, which is empty for higher-order ops."""

    name: str
    arg: Union


class GraphNode(Struct):
    """One op of the graph."""

    target: str
    inputs: list[NamedArgument]
    outputs: list[Union]
    metadata: dict[str, Any] = field(default_factory=dict)


class Graph(Struct):
    """Nodes in order of execution, and the type of every value they refer to."""

    inputs: list[Union]
    outputs: list[Union]
    nodes: list[GraphNode]
    tensor_values: dict[str, TensorMeta]
    sym_int_values: dict[str, Union] = field(default_factory=dict)
    sym_float_values: dict[str, Union] = field(default_factory=dict)
    sym_bool_values: dict[str, Union] = field(default_factory=dict)


class GraphSignature(Struct):
    """The kind of each graph input: parameter, buffer, constant or user input."""

    input_specs: list[dict[str, dict[str, Any]]]


class RawSignature(Struct):
    """The signature, not decoded yet."""

    input_specs: Raw


class SignedModule(Struct):
    """The signature alone."""

    signature: RawSignature


class SignedProgram(Struct):
    """The part of a program that states the roles of its tensors."""

    graph_module: SignedModule


class ModuleCall(Struct):
    """A module of the original model, identified by its path."""

    fqn: str


class GraphModule(Struct):
    """The graph with its signature and the paths of all modules."""

    graph: Graph
    signature: GraphSignature
    module_call_graph: list[ModuleCall] = field(default_factory=list)


class SchemaVersion(Struct):
    """The version of the file's schema."""

    major: int = 0


class ExportedProgram(Struct):
    """The whole program."""

    graph_module: GraphModule
    schema_version: SchemaVersion = field(default_factory=SchemaVersion)
    torch_version: str | None = None


class Payload(Struct):
    """The archive member that contains a tensor's bytes; tied tensors share one member."""

    path_name: str
    is_param: bool = False
    tensor_meta: TensorMeta | None = None


class PayloadConfig(Struct):
    """The tensors in one directory of the archive, by name."""

    config: dict[str, Payload] = field(default_factory=dict)
