"""GGUF: the header and where each tensor lies; blocks of quantised numbers are unpacked elsewhere."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from msgspec.structs import replace

from assay.checkpoint.decoding import dequantisation_problem
from assay.checkpoint.entries import ByteRange, Checkpoint, EncodedBytes, Entry, alignment
from assay.checkpoint.files import Region
from assay.checkpoint.formats.gguf_types import (
    DEFAULT_ALIGNMENT,
    LARGEST_ALIGNMENT,
    TENSOR_TYPES,
    VERSIONS,
    GgufType,
)
from assay.checkpoint.formats.gguf_values import Header
from assay.checkpoint.listing import LARGEST
from assay.errors import ReadError
from assay.messages import brief

MOST_TENSORS = 200_000
MOST_VALUES = 100_000
MOST_DIMENSIONS = 4
SMALLEST_TENSOR = 24
"""Bytes of the shortest description of a tensor."""


class _Tensor(NamedTuple):
    name: str
    shape: tuple[int, ...]
    type: int
    offset: int


def read(region: Region) -> Checkpoint:
    """The tensors of a GGUF file, shapes in torch's order."""
    path = brief(region.path)
    header = Header(region)
    version = header.version
    if version not in VERSIONS:
        raise ReadError(f"{path} is GGUF version {version}, and one of {', '.join(map(str, VERSIONS))} was wanted")
    count, values = header.count(), header.count()
    if count > min(MOST_TENSORS, region.size // SMALLEST_TENSOR) or values > min(MOST_VALUES, region.size // 12):
        raise ReadError(f"{path} is refused: it says to hold {count} tensors and {values} values")
    metadata = _metadata(header, values)
    tensors = [_tensor(header, path) for _ in range(count)]
    step = _alignment(path, metadata)
    start = -(-header.offset // step) * step
    metadata["gguf.version"] = version
    entries = _entries(region, start, step, tensors, swapped=header.swapped)
    return Checkpoint("gguf", region.path, entries, metadata, notes=_notes(metadata))


def _metadata(header: Header, count: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for _ in range(count):
        key = header.text()
        if key in metadata:
            raise header.refused(f"the key {brief(key)} stands twice")
        metadata[key] = header.value()
    return metadata


def _tensor(header: Header, path: str) -> _Tensor:
    name = header.text()
    dimensions = header.number(4)
    if dimensions > MOST_DIMENSIONS:
        raise ReadError(f"{path} is refused: tensor {brief(name)} has {dimensions} dimensions, at most 4 are allowed")
    sizes = [header.count() for _ in range(dimensions)]
    kind, offset = header.number(4), header.number(8)
    if math.prod(sizes) > LARGEST:
        raise ReadError(f"{path} is refused: tensor {brief(name)}: its shape is larger than any tensor")
    return _Tensor(name, tuple(reversed(sizes)), kind, offset)


def _alignment(path: str, metadata: dict[str, Any]) -> int:
    step = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if type(step) is not int or not 0 < step <= LARGEST_ALIGNMENT or step & (step - 1):
        raise ReadError(f"{path} is refused: alignment {brief(step)} is no power of two up to {LARGEST_ALIGNMENT}")
    return step


def _entries(data: Region, start: int, step: int, tensors: list[_Tensor], *, swapped: bool) -> list[Entry]:
    """The tensors in the order of the file's list, checked to lie apart from each other and in the file."""
    path = brief(data.path)
    if len({tensor.name for tensor in tensors}) != len(tensors):
        raise ReadError(f"{path} is refused: two tensors have the same name")
    ends: dict[str, int] = {}
    following = data.size
    for tensor in sorted(tensors, key=lambda tensor: (tensor.offset, tensor.name), reverse=True):
        first = start + tensor.offset
        size = _size(path, tensor)
        last = following if size is None else first + size
        if tensor.offset % step or first > data.size:
            raise ReadError(f"{path} is refused: tensor {brief(tensor.name)} starts at offset {tensor.offset}")
        if last > data.size:
            raise ReadError(f"{path} is cut short: tensor {brief(tensor.name)} ends at byte {last} of {data.size}")
        if last > following:
            raise ReadError(f"{path} is refused: tensor {brief(tensor.name)} overlaps another")
        ends[tensor.name] = last
        following = first if last > first else following
    entries = [_entry(data, start + tensor.offset, ends[tensor.name], tensor, swapped=swapped) for tensor in tensors]
    problem = dequantisation_problem() if any(entry.coded and entry.coded.dtype for entry in entries) else ""
    return [replace(entry, problem=problem) if entry.coded and entry.coded.dtype else entry for entry in entries]


def _size(path: str, tensor: _Tensor) -> int | None:
    """Bytes of a tensor; None where its type is unknown."""
    known = TENSOR_TYPES.get(tensor.type)
    if known is None:
        return None
    row = tensor.shape[-1] if tensor.shape else 1
    if row % known.block:
        raise ReadError(
            f"{path} is refused: tensor {brief(tensor.name)}: rows of {row} are no whole blocks of {known.block}"
        )
    return math.prod(tensor.shape) // known.block * known.bytes


def _entry(data: Region, first: int, last: int, tensor: _Tensor, *, swapped: bool) -> Entry:
    known = TENSOR_TYPES.get(tensor.type)
    dtype = known.dtype if known else f"gguf:type{tensor.type}"
    size = last - first
    stored = ByteRange(data.path, data.base + first, size)
    coded, problem = _coded(stored, tensor, known, swapped)
    if not size:
        return Entry((tensor.name,), dtype, tensor.shape, None, None, 0, 0, problem=problem, coded=coded)
    span = stored if coded is None else ByteRange(data.path, 0, coded.size)
    place = alignment(stored.offset)
    return Entry((tensor.name,), dtype, tensor.shape, None, span, size, place, 0, problem, coded=coded)


def _coded(
    stored: ByteRange, tensor: _Tensor, known: GgufType | None, swapped: bool
) -> tuple[EncodedBytes | None, str]:
    """How the numbers are had where they are not plain, or why they cannot be."""
    if known is None:
        return None, f"unknown GGUF type {tensor.type}"
    if known.block == 1:
        coded = EncodedBytes(stored, f"swapped:{known.bytes}", stored.length) if swapped and known.bytes > 1 else None
        return coded, ""
    if swapped:
        return None, "blocks of quantised numbers from a big-endian machine"
    return EncodedBytes(stored, known.dtype, math.prod(tensor.shape) * 4, "float32"), ""


def _notes(metadata: dict[str, Any]) -> tuple[str, ...]:
    number, count = metadata.get("split.no"), metadata.get("split.count")
    if type(number) is not int or type(count) is not int or count < 2:
        return ()
    return (f"this is part {number + 1} of {count}: point at the folder to read them all",)
