"""The rows of a document: modules, tensors, calls and ops. Indices point into the document's lists.

A model with 80 equal layers has few *kinds* of op and many *ops*: `OpKind` describes an op once, and `Op` is one
execution of it.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field


class TensorType(Struct, frozen=True, omit_defaults=True):
    """The shape, dtype and layout of a tensor: `TensorType((1, 3, 224, 224), "float32")`."""

    shape: tuple[int, ...]
    """The size of each dimension; empty for a scalar."""
    dtype: str
    """The dtype's name: `float32`."""
    strides: tuple[int, ...] | None = None
    """Strides in elements; null if the tensor is contiguous."""
    layout: str = "strided"
    """torch's layout name: `strided`, `sparse_coo`, …"""
    nnz: int | None = None
    """Stored elements of a sparse tensor; null for other layouts."""
    components: tuple[tuple[int, ...], ...] | None = None
    """The shape of each component of a nested tensor, whose differing dimensions are -1 in `shape`; else null."""


class Operand(Struct, frozen=True, omit_defaults=True):
    """A tensor that an op reads or returns."""

    name: str
    """The argument's name in the op's schema; items of a list are `tensors[0]`, `tensors[1]`."""
    type: TensorType
    """Its shape, dtype and layout."""
    role: str = "activation"
    """`activation`, `parameter`, `buffer` or `input`."""
    alias: int | None = None
    """Index of the earlier input (for an output: of the input) with the same storage; null if there is none."""
    written: bool = False
    """Whether the op writes into it (in place or as `out=`)."""


class OpKind(Struct, frozen=True, omit_defaults=True):
    """An op with its attributes and tensor types: everything its cost depends on."""

    name: str
    """The public Python name: `torch.conv2d`, `torch.nn.functional.linear`, `torch.ops.aten.view`."""
    target: str
    """The dispatcher's name: `aten.conv2d.default`."""
    attributes: dict[str, Any]
    """All non-tensor arguments by their schema name, including defaults."""
    inputs: tuple[Operand, ...]
    """The tensor arguments."""
    outputs: tuple[Operand, ...]
    """The tensors it returns."""
    facts: dict[str, int] = field(default_factory=dict)
    """Numbers that the cost needs and that depend on the data, such as the rows an expert received."""


class Op(Struct, frozen=True, omit_defaults=True):
    """One execution of an op."""

    kind: int
    """Index into `Document.kinds`."""
    call: int
    """Index of the innermost module call around it, in `Document.calls`; -1 outside any call."""
    reads: tuple[int, ...] = ()
    """Storages of its inputs, as indices into `Document.storages`."""
    writes: tuple[int, ...] = ()
    """Storages it allocated or wrote into, as indices into `Document.storages`."""
    phase: str = "forward"
    """`forward` or `backward`."""
    assumed: bool = False
    """Whether it ran without data on a size that depends on data, so that its cost is an upper bound."""


class Call(Struct, frozen=True, omit_defaults=True):
    """One call of a module."""

    module: int
    """Index into `Document.modules`."""
    parent: int | None
    """Index of the enclosing call; null for an outermost call."""
    inputs: tuple[TensorType, ...] = ()
    """The types of the tensors among its arguments."""
    outputs: tuple[TensorType, ...] = ()
    """The types of the tensors in its result."""
    failed: bool = False
    """Whether it raised an error."""


class Module(Struct, frozen=True, omit_defaults=True):
    """A module of the model, whether or not it was called."""

    path: str
    """Its dotted name; empty for the root."""
    class_name: str
    """The name of its class: `Conv2d`."""
    class_path: str
    """The full name of its class: `torch.nn.modules.conv.Conv2d`."""
    parent: int | None
    """Index of its parent module; null for the root."""
    config: dict[str, Any] = field(default_factory=dict)
    """Its settings, such as `in_channels`, read without executing any property."""
    tensors: dict[str, int] = field(default_factory=dict)
    """Its own parameters and buffers by local name, as indices into `Document.tensors`."""
    aliases: tuple[str, ...] = ()
    """Other paths of the same module object."""
    training: bool = False
    """Whether it was in training mode before the pass; see `Run.training` and `Run.as_is` for the mode it ran in."""
    created_in_forward: bool = False
    """Whether it was created during the forward pass."""
    scripted: bool = False
    """Whether torch ran it as TorchScript, which calls its submodules itself, not from Python."""

    @property
    def quantized(self) -> bool:
        """Whether it is one of torch's quantized modules, whose packed weights no op is seen to read."""
        return self.class_path.startswith("torch.ao.nn.") and ".quantized." in self.class_path


class Tensor(Struct, frozen=True, omit_defaults=True):
    """A parameter or buffer; tied parameters are one tensor with several names."""

    names: tuple[str, ...]
    """Its dotted names, several if it is tied."""
    role: str
    """`parameter` or `buffer`; of a stored tensor also `attribute` or `constant`, or empty if unknown."""
    type: TensorType
    """Its shape, dtype and layout."""
    bytes: int
    """Bytes of its elements."""
    requires_grad: bool = False
    """Whether autograd computes its gradient."""
    shares_storage_with: int | None = None
    """Index of the first tensor with the same storage; null if this tensor has its own."""


class Storage(Struct, frozen=True, omit_defaults=True):
    """A block of memory and its lifetime, in op indices."""

    bytes: int
    """Its size in bytes."""
    born: int
    """Index of the op that allocated it; 0 for memory that existed before the pass."""
    died: int | None = None
    """Index of the first op that ran after it was freed; null if it was still alive at the end."""
    role: str = "activation"
    """`activation`, `parameter`, `buffer`, `input`, `constant` or `gradient`."""
