"""Inert stand-ins for the objects that a pickle describes; none of the objects are created."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate
from operator import mul
from typing import Any

from msgspec import Struct

from assay.checkpoint.dtypes import ALIASES, STORAGES, item_bytes
from assay.checkpoint.entries import ByteRange, Checksum, EncodedBytes
from assay.document.dtypes import BITS

Builder = Callable[[Any], Any]

MAX_DIMENSIONS = 64
SWAPPED = "big-endian numbers that are also compressed: not supported"


class Global:
    """A class or function that the pickle refers to, not imported; `build` represents calls of harmless ones."""

    __slots__ = ("build", "dtype", "module", "name")

    def __init__(self, module: str, name: str, build: Builder | None) -> None:
        self.module = module
        self.name = name
        self.build = build
        self.dtype = STORAGES.get(name) or ALIASES.get(name) or (name if name in BITS else "")
        """The dtype it denotes: `float32` for `torch.float32` and `torch.FloatStorage`; else empty."""

    @property
    def path(self) -> str:
        """The dotted path, such as `torch.nn.modules.linear.Linear`."""
        return f"{self.module}.{self.name}"


class Stub(Struct, eq=False):
    """Stands for an object that loading would create by running code: the class or function, and its arguments."""

    cls: Any
    args: Any
    state: Any = None
    items: list[Any] | None = None
    """Items added to it, as to a list (values) or to a dictionary (pairs)."""

    @property
    def class_path(self) -> str:
        """The dotted name of its class."""
        return self.cls.path if isinstance(self.cls, Global) else "an unknown class"

    def extend(self, items: Iterable[Any]) -> None:
        """Record items that were added to it."""
        self.items = self.items or []
        self.items.extend(items)


class Blob(Struct, eq=False, gc=False):
    """Skipped bytes: where they start in the region, and how many there are."""

    start: int
    length: int
    latin: bool = False
    """Whether they are bytes written as UTF-8 text, one character per byte."""


class RawStorage(Struct, eq=False, gc=False):
    """A storage that tensors are views of: its description in the pickle and, once located, its position."""

    key: str
    dtype: str
    numel: Any
    """Declared number of elements of `dtype`."""
    file: str = ""
    """Empty if its bytes cannot be read."""
    offset: int = 0
    length: int = 0
    """Bytes available."""
    problem: str = ""
    encoded: EncodedBytes | None = None
    """Set if the stored bytes must be decoded; `offset` then counts decoded bytes."""
    checksum: Checksum | None = None
    """That of the stored bytes."""

    def set_location(self, file: str, offset: int, length: int, encoded: EncodedBytes | None = None) -> None:
        """Set its position: `offset` in `file`, or in the decoded bytes of `encoded`."""
        self.file, self.offset, self.length, self.encoded = file, offset, length, encoded

    def swap(self) -> None:
        """Mark its numbers as byte-swapped."""
        parts = 2 if self.dtype.startswith("complex") else 1
        width = (item_bytes(self.dtype) or 1) // parts
        if width > 1 and self.encoded is not None:
            self.problem = self.problem or SWAPPED
        elif width > 1 and self.file:
            span = ByteRange(self.file, self.offset, self.length)
            self.set_location(self.file, 0, self.length, EncodedBytes(span, f"swapped:{width}", self.length))


class TensorValue(Struct, eq=False, gc=False):
    """A view of a storage as the file describes it; nothing has been validated yet."""

    storage: Any
    offset: Any
    shape: Any
    strides: Any
    dtype: Any = None
    problem: str = ""
    requires_grad: Any = False


def contiguous_strides(shape: Any) -> tuple[int, ...]:
    """The strides of a contiguous tensor; sizes that are not integers, which a file may contain, count as 1.

    Only the first `MAX_DIMENSIONS` dimensions count: the product of more could exhaust memory.
    """
    steps = [size if type(size) is int else 1 for size in shape[MAX_DIMENSIONS:0:-1]]
    return tuple(accumulate(steps, mul, initial=1))[::-1] if shape else ()


class TensorParts(Struct, eq=False):
    """A tensor composed of other tensors (sparse, nested, a wrapper), by the names of its parts."""

    parts: dict[str, Any]


class Array(Struct, eq=False):
    """A numpy array; the pickle creates it first and sets its state later."""

    dtype: Any = None
    shape: Any = ()
    data: Any = None
    fortran: Any = False

    def set_state(self, state: Any) -> None:
        """Set the state that numpy's `__setstate__` takes: (version, shape, dtype, fortran, bytes)."""
        if isinstance(state, tuple) and len(state) >= 4:
            self.shape, self.dtype, self.fortran, self.data = state[-4:]


class ArrayType(Struct, eq=False):
    """A numpy dtype: its code, such as `f4`, and its byte order, which the pickle sets later."""

    code: str
    order: str = "<"
