"""torch.distributed checkpoints: a pickled .metadata file and .distcp files that concatenate torch.save archives.

A tensor saved in several pieces is listed as one entry per piece, named by its slice (`weight[0:512, 0:64]`): the
pieces are in different files, and each has its own exact statistics. The shape of the whole tensor is in the metadata
under `sharded`.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from assay.checkpoint.entries import Checkpoint
from assay.checkpoint.files import METADATA, Files, Region, inside
from assay.checkpoint.formats.archive import ZipArchive
from assay.checkpoint.formats.torch_zip import describe, not_run_note
from assay.checkpoint.listing import list_tensors, raise_invalid
from assay.checkpoint.pickle.machine import PickleMachine
from assay.checkpoint.pickle.values import Stub, TensorValue, contiguous_strides
from assay.checkpoint.remote import is_url
from assay.checkpoint.stream import Stream
from assay.errors import ReadError
from assay.messages import one_line, plural

OWN = ("torch.distributed.checkpoint.", "pathlib.")
"""Modules whose classes every .metadata refers to."""
MAX_ITEMS = 200_000


class _Item(NamedTuple):
    """One saved piece of a tensor."""

    name: str
    offsets: tuple[int, ...] | None
    file: str
    start: int
    length: int
    transformed: bool


class _Whole(NamedTuple):
    """A whole tensor of the model."""

    dtype: Any
    shape: tuple[int, ...]
    chunks: dict[tuple[int, ...], tuple[int, ...]]
    """The sizes of each piece, by its offsets."""


class _Code(NamedTuple):
    """The globals that the pickles refer to, except torch's own, and those that loading would call."""

    foreign: dict[str, None]
    called: dict[str, None]

    def add(self, machine: PickleMachine) -> None:
        """Add the globals of a pickle that has been read."""
        for names, found in ((self.foreign, machine.foreign), (self.called, machine.called)):
            names.update((name, None) for name in found if not name.startswith(OWN))


def read(path: str, files: Files) -> Checkpoint:
    """The tensors of a distributed checkpoint; a missing file is listed in `failures` and the rest is read."""
    with files.region(inside(path, METADATA)) as region:
        machine = PickleMachine(Stream(region), lambda pid: pid)
        value = machine.load()
    state, code = _fields(value), _Code({}, {})
    code.add(machine)
    wholes = _wholes(path, state.get("state_dict_metadata"))
    items = _items(path, state.get("storage_data"), wholes)
    named, failures = _read_items(path, items, wholes, files, code)
    parts = {name: len(whole.chunks) for name, whole in wholes.items() if len(whole.chunks) > 1}
    sharded = {name: {"shape": list(wholes[name].shape), "parts": count} for name, count in parts.items()}
    notes = (f"{plural(len(parts), 'tensor')} saved in pieces; each piece is listed as name[slice]",) if parts else ()
    others = [name for name, value in _pairs(state.get("state_dict_metadata")) if name not in wholes]
    return Checkpoint(
        "dcp",
        path,
        list_tensors(path, named),
        {"sharded": sharded, "other": others[:256]} if others or sharded else {},
        globals=tuple(code.foreign),
        notes=(*notes, *not_run_note(code.foreign, code.called)),
        failures=tuple(failures),
        holds="a distributed checkpoint without tensors in its .metadata",
    )


def _read_items(
    path: str, items: list[_Item], wholes: dict[str, _Whole], files: Files, code: _Code
) -> tuple[list[tuple[str, TensorValue]], list[str]]:
    named: list[tuple[str, TensorValue]] = []
    failures: list[str] = []
    by_file: dict[str, list[_Item]] = {}
    for item in items:
        by_file.setdefault(item.file, []).append(item)
    for file, pieces in by_file.items():
        location = inside(path, file)
        if not is_url(location) and not os.path.exists(location):
            failures.append(f"shard {one_line(file)} is missing: {plural(len(pieces), 'tensor')} not read")
            continue
        try:
            _check_overlaps(path, pieces)
            with files.region(location) as region:
                named += [pair for item in pieces for pair in _read_item(region, item, wholes[item.name], code)]
        except ReadError as error:
            failures.append(str(error))
    if failures and not named:
        raise ReadError(f"{one_line(path)}: cannot read any of its tensors; {failures[0]}")
    return named, failures


def _check_overlaps(path: str, items: list[_Item]) -> None:
    """Raise `ReadError` if two items of one file share bytes: their archive would be read again and again."""
    end = 0
    for item in sorted(items, key=lambda item: item.start):
        if item.start < end:
            raise ReadError(f"{one_line(path)} is rejected: the data of {one_line(item.name)} overlaps other data")
        end = item.start + item.length


def _read_item(region: Region, item: _Item, whole: _Whole, code: _Code) -> list[tuple[str, TensorValue]]:
    """The tensor in one saved item, named after its piece; several if it is a tensor subclass."""
    name, shape = _piece(item, whole)
    if item.transformed:
        problem = "its bytes were compressed or encrypted when it was saved: not supported"
        return [(name, TensorValue(None, 0, shape, contiguous_strides(shape), whole.dtype, problem))]
    contents, machine = describe(ZipArchive(region.part(item.start, item.length)))
    code.add(machine)
    tensors = contents.tensors
    if len(tensors) == 1 and not tensors[0][0] and tuple(tensors[0][1].shape) != shape:
        raise_invalid(
            region.path, name, f"the piece has shape {tuple(tensors[0][1].shape)}, but .metadata declares {shape}"
        )
    return [(f"{name}.{inner}" if inner else name, tensor) for inner, tensor in tensors]


def _piece(item: _Item, whole: _Whole) -> tuple[str, tuple[int, ...]]:
    """The name and shape of a piece; those of the tensor if it was saved in one piece."""
    offsets = item.offsets if item.offsets is not None else (0,) * len(whole.shape)
    shape = whole.chunks.get(offsets, whole.shape)
    if len(whole.chunks) <= 1 or len(offsets) != len(shape):
        return item.name, shape
    slices = ", ".join(f"{first}:{first + size}" for first, size in zip(offsets, shape, strict=True))
    return f"{item.name}[{slices}]", shape


def _wholes(path: str, table: Any) -> dict[str, _Whole]:
    """The tensors in `state_dict_metadata` by name."""
    wholes: dict[str, _Whole] = {}
    for name, value in _pairs(table):
        fields = _fields(value)
        if "size" not in fields:
            continue
        shape = _numbers(path, name, fields["size"])
        chunks: dict[tuple[int, ...], tuple[int, ...]] = {}
        pieces = fields.get("chunks")
        for chunk in pieces if isinstance(pieces, (list, tuple)) else ():
            piece = _fields(chunk)
            offsets = _numbers(path, name, piece.get("offsets"))
            sizes = _numbers(path, name, piece.get("sizes"))
            if not len(offsets) == len(sizes) == len(shape):
                raise ReadError(f"{one_line(path)} is damaged: the pieces of {one_line(name)} are not slices of it")
            chunks[offsets] = sizes
        properties = fields.get("properties")
        first = properties.state if isinstance(properties, Stub) else None
        wholes[name] = _Whole(first[0] if isinstance(first, tuple) and first else None, shape, chunks)
    return wholes


def _items(path: str, table: Any, wholes: dict[str, _Whole]) -> list[_Item]:
    """The saved pieces in `storage_data`."""
    items: list[_Item] = []
    for key, value in table.items() if isinstance(table, dict) else ():
        index, info = _fields(key), _fields(value)
        name, file = index.get("fqn"), info.get("relative_path")
        if name not in wholes:
            continue
        start, length, offsets = info.get("offset"), info.get("length"), index.get("offset")
        if type(file) is not str or type(start) is not int or type(length) is not int or len(items) > MAX_ITEMS:
            raise ReadError(f"{one_line(path)} is damaged: its .metadata does not locate {one_line(name)}")
        piece_offsets = None if offsets is None else _numbers(path, name, offsets)
        items.append(_Item(name, piece_offsets, file, start, length, bool(info.get("transform_descriptors"))))
    return items


def _fields(value: Any) -> dict[str, Any]:
    """The attributes of a stub; empty if `value` is not a stub with attributes."""
    return value.state if isinstance(value, Stub) and isinstance(value.state, dict) else {}


def _pairs(table: Any) -> list[tuple[str, Any]]:
    return [(key, value) for key, value in table.items() if isinstance(key, str)] if isinstance(table, dict) else []


def _numbers(path: str, name: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, (tuple, list)) or not all(type(item) is int and item >= 0 for item in value):
        raise ReadError(f"{one_line(path)} is damaged: its .metadata has no sizes for {one_line(name)}")
    return tuple(value)
