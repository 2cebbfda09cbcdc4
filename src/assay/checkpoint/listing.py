"""From described tensors to checked entries: every view lies inside its storage, and tied names are one entry."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn

from assay.checkpoint.dtypes import item_bytes, unreadable
from assay.checkpoint.entries import ByteRange, Entry, alignment
from assay.checkpoint.pickle.represented import dtype_name
from assay.checkpoint.pickle.values import MOST_DIMENSIONS, RawStorage, TensorValue, contiguous_strides
from assay.errors import ReadError
from assay.messages import brief

LARGEST = (1 << 63) - 1


class _Layout(NamedTuple):
    """Shape and strides that have been found to be sensible."""

    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    """None where it is contiguous."""
    elements: int
    distinct: int
    """Elements that are not a repetition by a stride of zero."""
    reach: int
    """How many elements of its storage, from its offset on, it needs there to be."""


class _View(NamedTuple):
    """A tensor whose numbers have been found to be numbers."""

    storage: RawStorage | None
    dtype: str
    offset: int
    layout: _Layout
    problem: str


def list_tensors(path: str, named: Iterable[tuple[str, TensorValue]]) -> list[Entry]:
    """One entry for each distinct view, in the order of their first names."""
    names: dict[Any, list[str]] = {}
    views: dict[Any, _View] = {}
    layouts: dict[Any, _Layout] = {}
    for name, tensor in named:
        view = _view(path, name, tensor, layouts)
        # A tensor without data is equal to nothing but itself.
        place = id(tensor) if view.storage is None else id(view.storage)
        key = (place, view.offset, view.dtype, view.layout)
        if key in names:
            names[key].append(name)
        else:
            names[key] = [name]
            views[key] = view
    first: dict[int, int] = {}
    entries: list[Entry] = []
    for key, view in views.items():
        shares = first.setdefault(key[0], len(entries))
        entries.append(_entry(path, tuple(names[key]), view, shares if shares != len(entries) else None))
    return entries


def _view(path: str, name: str, tensor: TensorValue, layouts: dict[Any, _Layout]) -> _View:
    offset, storage = tensor.offset, tensor.storage
    layout = _known_layout(path, name, tensor, layouts)
    if type(offset) is not int or offset < 0:
        refuse(path, name, f"negative offset {offset} into its storage")
    if storage is not None and type(storage) is not RawStorage:
        refuse(path, name, "it has no storage")
    dtype = dtype_name(tensor.dtype) or (storage.dtype if storage is not None else "unknown")
    return _View(storage, dtype, offset, layout, tensor.problem)


def _known_layout(path: str, name: str, tensor: TensorValue, layouts: dict[Any, _Layout]) -> _Layout:
    """The tensor's layout; a model has few different ones, so each is checked once."""
    shape, strides = tensor.shape, tensor.strides
    shape = tuple(shape) if type(shape) is list else shape
    strides = tuple(strides) if type(strides) is list else strides
    flat = type(shape) is tuple and type(strides) is tuple and len(shape) == len(strides) <= MOST_DIMENSIONS
    if not flat or not all(type(number) is int for number in shape + strides):
        refuse(path, name, f"its shape and strides are no lists of at most {MOST_DIMENSIONS} numbers")
    layout = layouts.get((shape, strides))
    if layout is None:
        layout = layouts[shape, strides] = _layout(path, name, shape, strides)
    return layout


def _layout(path: str, name: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> _Layout:
    if min(shape, default=0) < 0 or min(strides, default=0) < 0:
        refuse(path, name, f"negative {'size' if min(shape) < 0 else 'stride'} in shape {shape}, strides {strides}")
    elements = math.prod(shape)
    if elements > LARGEST or max(shape + strides, default=0) > LARGEST:
        refuse(path, name, "its shape is larger than any tensor")
    wanted = contiguous_strides(shape)
    steps = list(zip(shape, strides, strict=True))
    plain = not elements or all(
        size == 1 or stride == want for (size, stride), want in zip(steps, wanted, strict=True)
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
    coded = storage.coded
    if (view.offset + reach) * width > storage.length:
        held = f"element {view.offset + reach - 1} of storage {brief(storage.key)}, which holds"
        refuse(path, names[0], f"it reaches {held} {storage.length // width}")
    problem = storage.problem or problem
    if coded is not None and coded.kind.startswith("swapped") and dtype != storage.dtype:
        problem = problem or "big-endian numbers of another type than their storage's"
    first = storage.offset + view.offset * width
    place = alignment(first) if coded is None else 0
    if strides is None:
        span = ByteRange(storage.file, first, elements * width)
        return Entry(names, dtype, shape, None, span, elements * width, place, 0, problem, shares, coded)
    span = ByteRange(storage.file, storage.offset, storage.length)
    size = min(distinct * width, storage.length)
    return Entry(names, dtype, shape, strides, span, size, place, view.offset, problem, shares, coded)


def refuse(path: str, name: str, why: str) -> NoReturn:
    """Raise why a tensor of the file is none that can be."""
    raise ReadError(f"{brief(path)} is refused: tensor {brief(name)}: {brief(why)}")
