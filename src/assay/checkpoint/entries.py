"""What a checkpoint holds: its tensors and where their bytes lie, as plain data.

Rows that come by the ten thousand are kept from the garbage collector: they hold no cycles.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field


class ByteRange(Struct, frozen=True, gc=False):
    """A range of bytes in a file."""

    file: str
    """A local path, or a URL."""
    offset: int
    length: int


class EncodedBytes(Struct, frozen=True, omit_defaults=True, gc=False):
    """Stored bytes that are not the numbers themselves, and how plain ones are had from them."""

    span: ByteRange
    """Of the stored bytes."""
    kind: str
    """`deflate`, `text`, `swapped:4` or a block-quantised type such as `gguf:q4_k`; `decoding` knows them."""
    size: int
    """Of all the plain bytes."""
    dtype: str = ""
    """Of the plain numbers, where it is another than the entry's."""
    held: bytes | None = None
    """The plain bytes, where they were few and have been read already."""


class Entry(Struct, frozen=True, omit_defaults=True, gc=False):
    """One tensor. Tied names are one entry with several names."""

    names: tuple[str, ...]
    dtype: str
    """As torch calls it, without `torch.`; block-quantised GGUF types as `gguf:q4_k`."""
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    """In elements; None where it is contiguous. A dimension of stride 0 repeats the same elements."""
    span: ByteRange | None
    """Of its elements where it is contiguous, of the whole storage otherwise; None where there are none to read.
    Where it is `coded`, a range of the plain bytes."""
    bytes: int
    """What its distinct elements take in the file: an expanded view counts once."""
    alignment: int
    """The largest power of two that divides the file offset of its first byte; 0 where there is none."""
    storage_offset: int = 0
    """Elements between the span's start and a strided view's first element."""
    problem: str = ""
    """Why its numbers cannot be read, where that is so."""
    shares_storage_with: int | None = None
    """The first entry of the same storage, where this is another view of it."""
    coded: EncodedBytes | None = None
    """Where its numbers do not lie in the file as they are."""


class ModuleRow(Struct, frozen=True, gc=False):
    """A module of a pickled or scripted model."""

    path: str
    """Its dotted name; the root's is the empty string."""
    class_path: str


class ScriptCall(Struct, frozen=True, omit_defaults=True):
    """One call in TorchScript code; `%3` stands for the result of the function's call number 3."""

    target: str
    """`torch.add`, or a submodule's method as `self.fc.forward`."""
    arguments: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    """The names its result is bound to; empty where it goes straight into another call or is returned."""


class ScriptFunction(Struct, frozen=True, omit_defaults=True):
    """One method or function of TorchScript code."""

    name: str
    """With its class: `__torch__.Net.forward`."""
    arguments: tuple[str, ...] = ()
    calls: tuple[ScriptCall, ...] = ()
    """In order of evaluation; the branches of control flow one after the other."""


class Checkpoint(Struct, frozen=True):
    """Everything a file, or a folder of files, says about its tensors."""

    format: str
    """`safetensors`, `torch-zip`, `torchscript`, `pt2`, `gguf`, `dcp`, `torch-legacy` or `pickle`."""
    path: str
    entries: list[Entry]
    metadata: dict[str, Any] = field(default_factory=dict)
    modules: list[ModuleRow] = field(default_factory=list)
    """The tree of a pickled or scripted model; its code was not run."""
    functions: list[ScriptFunction] = field(default_factory=list)
    """The graph of a scripted model, read from its source text."""
    globals: tuple[str, ...] = ()
    """What loading the file with torch would have imported beyond torch's own harmless parts; not imported here."""
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    """What is missing or damaged while the rest could be read."""


def alignment(offset: int) -> int:
    """The largest power of two that divides `offset`; 0 for 0."""
    return offset & -offset
