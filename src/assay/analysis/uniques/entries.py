"""The entries of the lists of unique modules and unique ops. The order of fields is their order in the files."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

ModuleId = Annotated[str, Meta(pattern="^mod_[0-9]{3,}$")]
OpId = Annotated[str, Meta(pattern="^op_[0-9]{3,}$")]
Shape = Annotated[str, Meta(description="Sizes joined by x, as in 1x3x224x224, or scalar for zero dimensions.")]
Dtype = Annotated[str, Meta(description="The dtype without the torch prefix, as in float32.")]
Count = Annotated[int, Meta(ge=0)]


class CallSignature(Struct, frozen=True):
    """Input and output types of calls of one module, and the number of such calls."""

    input_shapes: list[Shape]
    output_shapes: list[Shape]
    input_dtypes: list[Dtype]
    output_dtypes: list[Dtype]
    count: Annotated[Count, Meta(description="The number of calls with this signature.")]


class OwnTensor(Struct, frozen=True, gc=False):
    """A parameter or buffer that a module owns directly."""

    shape: Shape
    dtype: Dtype
    role: str


class ModuleFigures(Struct, frozen=True, gc=False):
    """The cost of a module over all its calls, including submodules; null if unknown."""

    flops: int | None
    macs: int | None
    bytes: int | None


class OpFigures(Struct, frozen=True, gc=False):
    """The cost of one execution of an op; null if unknown."""

    macs: int | None
    matrix_flops: int | None
    pointwise_flops: int | None
    needed_flops: int | None
    bytes: int
    category: str


class UniqueModule(Struct, frozen=True, kw_only=True):
    """Modules with the same class, call signatures, configuration, tensor types and submodules."""

    id: ModuleId
    class_name: str
    module_path: str
    parent: str | None
    input_shapes: list[Shape]
    output_shapes: list[Shape]
    input_dtypes: list[Dtype]
    output_dtypes: list[Dtype]
    parameters: dict[str, Any]
    occurrences: Annotated[list[str], Meta(description="The paths of all equal modules, the first one included.")]
    class_path: str
    called: bool
    calls: Annotated[Count, Meta(description="Calls of the first of the equal modules in one pass.")]
    call_signatures: list[CallSignature] | UnsetType = UNSET
    """Present only if the first occurrence was called with more than one signature."""
    aliases: list[str]
    """Other paths of the same module objects."""
    tensors: dict[str, OwnTensor]
    created_in_forward: bool | UnsetType = UNSET
    """Present only if true."""
    cost: ModuleFigures | None = None
    """Cost of the first occurrence; null if costs were not counted."""


class OutputType(Struct, frozen=True, gc=False):
    """An output tensor of an op."""

    shape: Shape
    dtype: Dtype


class InputType(Struct, frozen=True, gc=False):
    """An input tensor of an op, with the name of its argument."""

    name: str
    shape: Shape
    dtype: Dtype


class TensorTypes(Struct, frozen=True):
    """The tensors of an op; `output` is the first of `outputs`, null if there are none."""

    output: OutputType | None
    inputs: list[InputType]
    outputs: list[OutputType]


class Occurrence(Struct, frozen=True, gc=False):
    """One execution of an op."""

    source_module_id: ModuleId
    node_name: str
    module_path: str


class UniqueOp(Struct, frozen=True):
    """Executions with the same op, attributes and tensor types."""

    id: OpId
    op_name: str
    source_module_id: ModuleId
    source_module_class: str
    attributes: dict[str, Any]
    tensor_types: TensorTypes
    occurrences: list[Occurrence]
    target: str
    count: Annotated[Count, Meta(description="Executions in one pass: the number of occurrences.")]
    cost: OpFigures | None = None
    """Cost of the first execution; null if costs were not counted."""
