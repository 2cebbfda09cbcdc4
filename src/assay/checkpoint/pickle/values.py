"""What stands for the objects of a pickle: inert values that were described, never made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate
from operator import mul
from typing import Any

from msgspec import Struct

from assay.checkpoint.dtypes import ALIASES, STORAGES, item_bytes
from assay.checkpoint.entries import ByteRange, EncodedBytes
from assay.document.dtypes import BITS

Builder = Callable[[Any], Any]

MOST_DIMENSIONS = 64
SWAPPED = "big-endian numbers that are packed as well"


class Global:
    """A class or function that the pickle names. It is not imported; `build` represents calls of harmless ones."""

    __slots__ = ("build", "dtype", "module", "name")

    def __init__(self, module: str, name: str, build: Builder | None) -> None:
        self.module = module
        self.name = name
        self.build = build
        self.dtype = STORAGES.get(name) or ALIASES.get(name) or (name if name in BITS else "")
        """The element type that it stands for: `float32` for `torch.float32` and `torch.FloatStorage`."""

    @property
    def path(self) -> str:
        """`torch.nn.modules.linear.Linear`."""
        return f"{self.module}.{self.name}"


class Stub(Struct, eq=False):
    """An object that loading would have made by running code: what it would have been made from."""

    cls: Any
    args: Any
    state: Any = None
    items: list[Any] | None = None
    """What was put into it as into a list (values) or as into a dictionary (pairs)."""

    @property
    def class_path(self) -> str:
        """The dotted name of what it is an object of."""
        return self.cls.path if isinstance(self.cls, Global) else "an unknown class"

    def extend(self, items: Iterable[Any]) -> None:
        """Note what was put into it."""
        self.items = self.items or []
        self.items.extend(items)


class Blob(Struct, eq=False, gc=False):
    """Bytes that were passed over: where they start in the region, and how many there are."""

    start: int
    length: int
    latin: bool = False
    """Whether they are the UTF-8 of a text whose characters are the bytes that were meant."""


class RawStorage(Struct, eq=False, gc=False):
    """Memory that tensors look into: what the pickle says of it, and then where it was found."""

    key: str
    dtype: str
    numel: Any
    """Elements of `dtype`, as declared."""
    file: str = ""
    """Empty where its bytes do not lie in any file as they are."""
    offset: int = 0
    length: int = 0
    """Bytes found."""
    problem: str = ""
    coded: EncodedBytes | None = None
    """Where `offset` counts plain bytes that are had from stored ones."""

    def place(self, file: str, offset: int, length: int, coded: EncodedBytes | None = None) -> None:
        """Say that it was found at `offset` of `file`, or of the plain bytes of `coded`."""
        self.file, self.offset, self.length, self.coded = file, offset, length, coded

    def swap(self) -> None:
        """Say that its numbers have their bytes the other way round."""
        parts = 2 if self.dtype.startswith("complex") else 1
        width = (item_bytes(self.dtype) or 1) // parts
        if width > 1 and self.coded is not None:
            self.problem = self.problem or SWAPPED
        elif width > 1 and self.file:
            span = ByteRange(self.file, self.offset, self.length)
            self.place(self.file, 0, self.length, EncodedBytes(span, f"swapped:{width}", self.length))


class TensorValue(Struct, eq=False, gc=False):
    """A view of a storage as it was described: nothing of it has been checked yet."""

    storage: Any
    offset: Any
    shape: Any
    strides: Any
    dtype: Any = None
    problem: str = ""


def contiguous_strides(shape: Any) -> tuple[int, ...]:
    """The strides of a contiguous tensor; what is no size, as a file may have it, counts as one.

    Of a shape with more dimensions than any tensor has only the first count: their product could fill the memory.
    """
    steps = [size if type(size) is int else 1 for size in shape[MOST_DIMENSIONS:0:-1]]
    return tuple(accumulate(steps, mul, initial=1))[::-1] if shape else ()


class TensorParts(Struct, eq=False):
    """A tensor made of others (sparse, nested, a wrapper), by the names of its parts."""

    parts: dict[str, Any]


class Array(Struct, eq=False):
    """A numpy array; its state arrives after it was named."""

    dtype: Any = None
    shape: Any = ()
    data: Any = None
    fortran: Any = False

    def set_state(self, state: Any) -> None:
        """Take what numpy's own `__setstate__` would: (version, shape, dtype, fortran, bytes)."""
        if isinstance(state, tuple) and len(state) >= 4:
            self.shape, self.dtype, self.fortran, self.data = state[-4:]


class ArrayType(Struct, eq=False):
    """A numpy dtype: its code such as `f4`, and its byte order once that is known."""

    code: str
    order: str = "<"
