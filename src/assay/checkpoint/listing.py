"""Turns tensor descriptions into checked entries: every view fits its storage, and tied tensors are one entry."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from msgspec.structs import replace

from assay.checkpoint.dtypes import item_bytes, unreadable
from assay.checkpoint.entries import ByteRange, Entry, alignment
from assay.checkpoint.pickle.represented import dtype_name
from assay.checkpoint.pickle.values import MAX_DIMENSIONS, RawStorage, TensorValue, contiguous_strides
from assay.document.roles import ATTRIBUTE, joint_role
from assay.errors import ReadError
from assay.messages import one_line, plural

MAX_ELEMENTS = (1 << 63) - 1
MAX_TENSORS = 160_000
"""The largest known models have 150,000."""
MAX_NAME_LENGTH = 1 << 12
"""Characters of one name."""
MAX_NAME_BYTES = 32 << 20
"""Memory of all names: every view makes copies of them."""


class _Layout(NamedTuple):
    """Validated shape and strides."""

    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    """None if contiguous."""
    elements: int
    distinct: int
    """Number of elements without repetitions (stride 0)."""
    reach: int
    """Elements that its storage must have from the view's offset on."""


class _View(NamedTuple):
    """A tensor whose layout, offset and storage have been validated."""

    storage: RawStorage | None
    dtype: str
    offset: int
    layout: _Layout
    problem: str


def list_tensors(
    path: str, named: Iterable[tuple[str, TensorValue]], roles: Mapping[str, str] | None = None
) -> list[Entry]:
    """One entry per distinct view, in the order in which the views first appear; `roles` has those that are known."""
    found: dict[Any, tuple[_View, list[str]]] = {}
    layouts: dict[Any, _Layout] = {}
    budget = NameBudget(path)
    for name, tensor in named:
        budget.add(name)
        view = _view(path, name, tensor, layouts)
        # Tensors without data are never tied to each other.
        identity = id(tensor) if view.storage is None else id(view.storage)
        found.setdefault((identity, view.offset, view.dtype, view.layout), (view, []))[1].append(name)
    first: dict[int, int] = {}
    entries: list[Entry] = []
    roles = roles or {}
    for key in list(found):
        view, names = found.pop(key)  # both lists together may take a lot of memory
        shares = first.setdefault(key[0], len(entries))
        # An attribute that holds a parameter, as `_flat_weights` of recurrent layers does, is not another name of it.
        own = [name for name in names if roles.get(name) != ATTRIBUTE] or names
        entry = _entry(path, tuple(own), view, shares if shares != len(entries) else None)
        role = joint_role([roles.get(name, "") for name in entry.names])
        entries.append(replace(entry, role=role) if role else entry)
    return entries


def _view(path: str, name: str, tensor: TensorValue, layouts: dict[Any, _Layout]) -> _View:
    offset, storage = tensor.offset, tensor.storage
    layout = _checked_layout(path, name, tensor, layouts)
    if type(offset) is not int or offset < 0:
        shown = offset if type(offset) is int else type(offset).__name__
        raise_invalid(path, name, f"its storage offset {shown} is not a non-negative integer")
    if storage is not None and type(storage) is not RawStorage:
        raise_invalid(path, name, "it has no storage")
    dtype = dtype_name(tensor.dtype) or (storage.dtype if storage is not None else "unknown")
    return _View(storage, dtype, offset, layout, tensor.problem)


def _checked_layout(path: str, name: str, tensor: TensorValue, layouts: dict[Any, _Layout]) -> _Layout:
    """The tensor's layout; each distinct one is checked only once, since a model has few."""
    shape, strides = tensor.shape, tensor.strides
    shape = tuple(shape) if type(shape) is list else shape
    strides = tuple(strides) if type(strides) is list else strides
    flat = type(shape) is tuple and type(strides) is tuple and len(shape) == len(strides) <= MAX_DIMENSIONS
    if not flat or not all(type(number) is int for number in shape + strides):
        raise_invalid(path, name, f"its shape and strides are not lists of at most {MAX_DIMENSIONS} integers")
    layout = layouts.get((shape, strides))
    if layout is None:
        layout = layouts[shape, strides] = _layout(path, name, shape, strides)
    return layout


def _layout(path: str, name: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> _Layout:
    if min(shape, default=0) < 0 or min(strides, default=0) < 0:
        raise_invalid(
            path, name, f"negative {'size' if min(shape) < 0 else 'stride'} in shape {shape}, strides {strides}"
        )
    elements = count_elements(path, name, shape)
    if max(strides, default=0) > MAX_ELEMENTS:
        raise_invalid(path, name, "its strides are larger than those of any tensor can be")
    expected = contiguous_strides(shape)
    steps = list(zip(shape, strides, strict=True))
    plain = not elements or all(
        size == 1 or stride == step for (size, stride), step in zip(steps, expected, strict=True)
    )
    distinct = math.prod(size for size, stride in steps if stride or size == 1)
    reach = 1 + sum((size - 1) * stride for size, stride in steps) if elements else 0
    return _Layout(shape, None if plain else strides, elements, distinct, reach)


def _entry(path: str, names: tuple[str, ...], view: _View, shares: int | None) -> Entry:
    storage, dtype = view.storage, view.dtype
    shape, strides, elements, distinct, reach = view.layout
    width = item_bytes(dtype)
    problem = view.problem or unreadable(dtype)
    if storage is None or not elements:
        size = 0 if storage is not None or width is None else elements * width
        return Entry(names, dtype, shape, strides, None, size, 0, problem=problem)
    if width is None or not storage.file:
        size = min(distinct * (width or 1), storage.length)
        return Entry(names, dtype, shape, strides, None, size, 0, 0, storage.problem or problem, shares)
    encoded = storage.encoded
    if (view.offset + reach) * width > storage.length:
        where = f"element {view.offset + reach - 1} of storage {one_line(storage.key)}"
        raise_invalid(path, names[0], f"it reaches {where}, which has {plural(storage.length // width, 'element')}")
    problem = storage.problem or problem
    if encoded is not None and encoded.kind.startswith("swapped") and dtype != storage.dtype:
        problem = problem or "big-endian numbers with a dtype other than their storage's: not supported"
    first = storage.offset + view.offset * width
    aligned = alignment(first) if encoded is None else 0
    span = ByteRange(storage.file, storage.offset, storage.length)
    size = min(distinct * width, storage.length)
    offset = view.offset
    if strides is None:
        span, size, offset = ByteRange(storage.file, first, elements * width), elements * width, 0
    checksum = storage.checksum
    if checksum is not None and checksum.span == span:
        span = checksum.span  # one object for both: there may be 150,000
    return Entry(names, dtype, shape, strides, span, size, aligned, offset, problem, shares, encoded, checksum)


def count_elements(path: str, name: str, shape: Sequence[int]) -> int:
    """The number of elements; `ReadError` if torch cannot hold the shape, as of a zero beside a huge dimension."""
    if math.prod(max(size, 1) for size in shape) > MAX_ELEMENTS:
        raise_invalid(path, name, "its shape is larger than any tensor can be")
    return math.prod(shape)


class NameBudget:
    """Counts names and their memory; a file with more than any model has is rejected."""

    def __init__(self, path: str, noun: str = "tensor", most: int = MAX_TENSORS) -> None:
        self._path = one_line(path)
        self._noun = noun
        self._most = most
        self._count = 0
        self._bytes = 0

    def add(self, name: str) -> None:
        """Count one name; `ReadError` if it is too long, or one too many."""
        self._count += 1
        self._bytes += sys.getsizeof(name)
        if len(name) > MAX_NAME_LENGTH:
            raise self._rejected(
                f"the name of a {self._noun} has {len(name):,} characters, the limit is {MAX_NAME_LENGTH:,}"
            )
        if self._count > self._most:
            raise self._rejected(f"it has more than {self._most:,} {self._noun}s")
        if self._bytes > MAX_NAME_BYTES:
            raise self._rejected(f"the names of its {self._noun}s have more than {MAX_NAME_BYTES:,} bytes")

    def _rejected(self, why: str) -> ReadError:
        return ReadError(f"{self._path} is rejected: {why}")


def uninitialized_note(names: Sequence[str]) -> tuple[str, ...]:
    """The note that lazy tensors are not listed; empty if there are none."""
    shown = ", ".join(one_line(name, 60) for name in names[:5])
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return (f"not listed, because lazy modules have no shapes before they run: {shown}{more}",) if names else ()


def raise_invalid(path: str, name: str, why: str) -> NoReturn:
    """Raise the error for an invalid tensor in the file at `path`."""
    raise ReadError(f"{one_line(path)} is not a valid checkpoint: tensor {one_line(name)}: {one_line(why)}")
