"""The entries of the two lists of uniques. A field's place is its place in the files."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

ModuleId = Annotated[str, Meta(pattern="^mod_[0-9]{3,}$")]
OpId = Annotated[str, Meta(pattern="^op_[0-9]{3,}$")]
Shape = Annotated[str, Meta(description="Sizes joined by x, as in 1x3x224x224; a zero-dimensional tensor is scalar.")]
Dtype = Annotated[str, Meta(description="The element type without a prefix, as in float32.")]
Count = Annotated[int, Meta(ge=0)]


class CallSignature(Struct, frozen=True):
    """What went into and came out of calls of one module, and how many calls looked like that."""

    input_shapes: list[Shape]
    output_shapes: list[Shape]
    input_dtypes: list[Dtype]
    output_dtypes: list[Dtype]
    count: Count


class OwnTensor(Struct, frozen=True, gc=False):
    """A parameter or buffer that a module holds itself."""

    shape: Shape
    dtype: Dtype
    role: str


class ModuleFigures(Struct, frozen=True, gc=False):
    """What a module costs over all its calls, with everything inside them; null is a figure nobody knows."""

    flops: int | None
    macs: int | None
    bytes: int


class OpFigures(Struct, frozen=True, gc=False):
    """What one execution of an operation costs; null is a figure nobody knows."""

    macs: int | None
    matrix_flops: int | None
    pointwise_flops: int | None
    needed_flops: int | None
    bytes: int
    category: str


class UniqueModule(Struct, frozen=True, kw_only=True):
    """Modules that are equal in class, call signatures, configuration and the types of their own tensors."""

    id: ModuleId
    class_name: str
    module_path: str
    parent: str | None
    input_shapes: list[Shape]
    output_shapes: list[Shape]
    input_dtypes: list[Dtype]
    output_dtypes: list[Dtype]
    parameters: dict[str, Any]
    occurrences: list[str]
    class_path: str
    called: bool
    calls: Count
    """How often the first occurrence was called."""
    call_signatures: list[CallSignature] | UnsetType = UNSET
    """Only where the first occurrence was called in more than one way."""
    aliases: list[str]
    """Further paths of the very same module objects."""
    tensors: dict[str, OwnTensor]
    created_in_forward: bool | UnsetType = UNSET
    """Only where it is true."""
    cost: ModuleFigures | None = None
    """Of the first occurrence; null where nothing was counted."""


class OutputType(Struct, frozen=True, gc=False):
    """A tensor an operation made."""

    shape: Shape
    dtype: Dtype


class InputType(Struct, frozen=True, gc=False):
    """A tensor an operation got, under its argument's name."""

    name: str
    shape: Shape
    dtype: Dtype


class TensorTypes(Struct, frozen=True):
    """The tensors of an operation; `output` is the first of `outputs`, null where there is none."""

    output: OutputType | None
    inputs: list[InputType]
    outputs: list[OutputType]


class Occurrence(Struct, frozen=True, gc=False):
    """One execution of an operation."""

    source_module_id: ModuleId
    node_name: str
    module_path: str


class UniqueOp(Struct, frozen=True):
    """Executions that are equal in operation, attributes and tensor types."""

    id: OpId
    op_name: str
    source_module_id: ModuleId
    source_module_class: str
    attributes: dict[str, Any]
    tensor_types: TensorTypes
    occurrences: list[Occurrence]
    target: str
    count: Count
    cost: OpFigures | None = None
    """Of the first execution; null where nothing was counted."""
