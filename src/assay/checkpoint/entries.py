"""The contents of a checkpoint as plain data: its tensors and the byte range of each.

Structs that exist by the ten thousand are excluded from garbage collection (`gc=False`): they contain no cycles.
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
    """Stored bytes that must be decoded before they are plain numbers, and their encoding."""

    span: ByteRange
    """Range of the stored bytes."""
    kind: str
    """`deflate`, `text`, `swapped:4` or a block-quantised type such as `gguf:q4_k`."""
    size: int
    """Total number of decoded bytes."""
    dtype: str = ""
    """Dtype of the decoded numbers, if it differs from the entry's."""
    plain: bytes | None = None
    """The decoded bytes, if they were few and have already been read."""
    crc: int | None = None
    """CRC-32 of all decoded bytes, verified as they are decoded; None if unknown."""


class Checksum(Struct, frozen=True, gc=False):
    """The CRC-32 that a zip archive states for a record."""

    span: ByteRange
    """The whole record as it is stored; it may hold more than one tensor."""
    crc: int


class Entry(Struct, frozen=True, omit_defaults=True, gc=False):
    """One tensor. Tied tensors are one entry with several names."""

    names: tuple[str, ...]
    dtype: str
    """Torch's name without `torch.`; block-quantised GGUF types are written `gguf:q4_k`."""
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    """In elements; None if contiguous. A dimension with stride 0 repeats the same elements."""
    span: ByteRange | None
    """The bytes of its elements if it is contiguous, else of its whole storage; None if there is nothing to read.
    If `encoded` is set, a range of the decoded bytes."""
    bytes: int
    """Bytes that its distinct elements take in the file: repeated elements of an expanded view count once."""
    alignment: int
    """The largest power of two that divides the file offset of its first byte; 0 if unknown."""
    storage_offset: int = 0
    """Elements between the start of `span` and the first element of a strided view."""
    problem: str = ""
    """Why its values cannot be read; empty if they can."""
    shares_storage_with: int | None = None
    """Index of the first entry with the same storage, if this is another view of it."""
    encoded: EncodedBytes | None = None
    """Set if its numbers must be decoded."""
    checksum: Checksum | None = None
    """The checksum of the stored record that its bytes are in; None if there is none, or if it is verified while it
    is decoded."""
    role: str = ""
    """`parameter`, `buffer`, `attribute` (neither, but of a module), `constant` (of the code); empty if unknown."""


class ModuleRow(Struct, frozen=True, gc=False):
    """A module of a pickled or scripted model."""

    path: str
    """Its dotted name; empty for the root."""
    class_path: str


class ScriptCall(Struct, frozen=True, omit_defaults=True):
    """One call in TorchScript code; `%3` stands for the result of the function's call number 3."""

    target: str
    """`torch.add`, or a submodule's method as `self.fc.forward`."""
    arguments: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    """Variables that the result is assigned to; empty if it is passed straight to another call or returned."""


class ScriptFunction(Struct, frozen=True, omit_defaults=True):
    """One method or function of TorchScript code."""

    name: str
    """Qualified by its class: `__torch__.Net.forward`."""
    arguments: tuple[str, ...] = ()
    calls: tuple[ScriptCall, ...] = ()
    """In order of evaluation; all branches of a conditional are listed, one after the other."""


class Checkpoint(Struct, frozen=True):
    """The tensors, modules and metadata of a checkpoint file or directory."""

    format: str
    """`safetensors`, `torch-zip`, `torchscript`, `pt2`, `gguf`, `npy`, `npz`, `dcp`, `torch-legacy` or `pickle`."""
    path: str
    entries: list[Entry]
    metadata: dict[str, Any] = field(default_factory=dict)
    modules: list[ModuleRow] = field(default_factory=list)
    """The module tree of a pickled or scripted model; its code was not run."""
    functions: list[ScriptFunction] = field(default_factory=list)
    """The graph of a scripted model, read from its source text."""
    globals: tuple[str, ...] = ()
    """Globals that loading the file with torch would import, except torch's own harmless ones; not imported here."""
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    """Missing or damaged parts; the rest was read."""
    holds: str = ""
    """What the file contains if it has neither tensors nor modules: `a pickle of an empty dictionary`."""


def alignment(offset: int) -> int:
    """The largest power of two that divides `offset`; 0 for 0."""
    return offset & -offset
