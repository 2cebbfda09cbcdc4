"""The rows of a document: modules, tensors, calls, operations. Indices point into the document's lists.

A model with 80 equal layers has few *kinds* of operation and many *ops*: what an operation is stands
once in `OpKind`, where it happened in `Op`.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field


class TensorType(Struct, frozen=True, omit_defaults=True):
    """What a tensor looks like from outside: `TensorType((1, 3, 224, 224), "float32")`."""

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] | None = None
    """None where it is contiguous."""
    layout: str = "strided"
    nnz: int | None = None
    """Stored elements of a sparse tensor."""


class Operand(Struct, frozen=True, omit_defaults=True):
    """A tensor as one operation sees it."""

    name: str
    """The argument's name in the operation's schema; a list's items are `tensors[0]`, `tensors[1]`."""
    type: TensorType
    role: str = "activation"
    """`activation`, `parameter`, `buffer` or `input`."""
    alias: int | None = None
    """For an input: the earlier input with the same storage. For an output: the input whose storage it shares."""
    written: bool = False
    """Whether the operation writes into it (in place or `out=`)."""


class OpKind(Struct, frozen=True, omit_defaults=True):
    """An operation with its attributes and tensor types: everything its cost depends on."""

    name: str
    """As a user would write it: `torch.conv2d`, `torch.nn.functional.linear`, `torch.ops.aten.view`."""
    target: str
    """The dispatcher's name: `aten.conv2d.default`."""
    attributes: dict[str, Any]
    """Every argument that is no tensor, by its schema name, defaults included."""
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    facts: dict[str, int] = field(default_factory=dict)
    """Numbers that only the data tells and the cost needs (rows an expert got, say)."""


class Op(Struct, frozen=True, omit_defaults=True):
    """One execution of an operation."""

    kind: int
    call: int
    """The innermost module call around it; -1 outside any."""
    reads: tuple[int, ...] = ()
    """Storages it got."""
    writes: tuple[int, ...] = ()
    """Storages it made or wrote."""
    phase: str = "forward"
    """`forward` or `backward`."""


class Call(Struct, frozen=True, omit_defaults=True):
    """One call of a module."""

    module: int
    parent: int | None
    """The call it happened in; None for the outermost."""
    inputs: tuple[TensorType, ...] = ()
    outputs: tuple[TensorType, ...] = ()
    failed: bool = False


class Module(Struct, frozen=True, omit_defaults=True):
    """A module of the model, called or not."""

    path: str
    """Its dotted name; the root's is the empty string."""
    class_name: str
    class_path: str
    """Where the class is defined: `torch.nn.modules.conv.Conv2d`."""
    parent: int | None
    config: dict[str, Any] = field(default_factory=dict)
    """The constructor-level attributes, read without executing any property."""
    tensors: dict[str, int] = field(default_factory=dict)
    """Its own parameters and buffers by local name; each an index into `Document.tensors`."""
    aliases: tuple[str, ...] = ()
    """Other paths of the very same module."""
    training: bool = False
    created_in_forward: bool = False


class Tensor(Struct, frozen=True, omit_defaults=True):
    """A parameter or buffer. Tied names are one tensor with several names."""

    names: tuple[str, ...]
    role: str
    """`parameter` or `buffer`."""
    type: TensorType
    bytes: int
    requires_grad: bool = False
    shares_storage_with: int | None = None
    """The first tensor of the same storage, where this is a view of it."""


class Storage(Struct, frozen=True, omit_defaults=True):
    """Memory an operation allocated: born with op `born`, gone before op `died` (None: alive at the end)."""

    bytes: int
    born: int
    died: int | None = None
    role: str = "activation"
