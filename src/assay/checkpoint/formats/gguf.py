"""GGUF: the header, of which long lists are passed over, and where each tensor lies; `decoding` unpacks blocks."""

from __future__ import annotations

import math
import struct
from typing import Any, NamedTuple

from msgspec.structs import replace

from assay.checkpoint.decoding import dequantisation_problem
from assay.checkpoint.entries import ByteRange, Checkpoint, EncodedBytes, Entry, alignment
from assay.checkpoint.files import Region
from assay.checkpoint.formats.gguf_types import (
    BOOL,
    DEFAULT_ALIGNMENT,
    LARGEST_ALIGNMENT,
    LIST,
    SCALARS,
    TENSOR_TYPES,
    TEXT,
    VERSIONS,
    GgufType,
)
from assay.checkpoint.listing import LARGEST, refuse
from assay.checkpoint.stream import Stream
from assay.errors import ReadError
from assay.messages import brief

MOST_TENSORS = 200_000
MOST_VALUES = 100_000
MOST_DIMENSIONS = 4
SMALLEST_TENSOR = 24
"""Bytes of the shortest description of a tensor."""
LONGEST_NAME = 1 << 16
LONGEST_TEXT = 1 << 16
"""Longer values (chat templates, whole vocabularies) are passed over and only their length is kept."""
MOST_ITEMS = 4_000_000
"""Of all lists together; the largest vocabularies have some 300,000 and as many merges."""
KEPT_ITEMS = 8
DEEPEST_LIST = 4


class _Tensor(NamedTuple):
    name: str
    shape: tuple[int, ...]
    type: int
    offset: int


def read(region: Region) -> Checkpoint:
    """The tensors of a GGUF file, shapes in torch's order."""
    path = brief(region.path)
    header = _Header(region)
    version = header.version
    if version not in VERSIONS:
        raise ReadError(f"{path} is GGUF version {version}, and one of {', '.join(map(str, VERSIONS))} was wanted")
    count, values = header.count(), header.count()
    if count > min(MOST_TENSORS, region.size // SMALLEST_TENSOR) or values > min(MOST_VALUES, region.size // 12):
        raise ReadError(f"{path} is refused: it says to hold {count} tensors and {values} values")
    metadata = _metadata(header, values)
    tensors = [_tensor(header, region.path) for _ in range(count)]
    step = _alignment(path, metadata)
    start = -(-header.offset // step) * step
    metadata["gguf.version"] = version
    entries = _entries(region, start, step, tensors, swapped=header.swapped)
    return Checkpoint("gguf", region.path, entries, metadata, notes=_notes(metadata))


def _metadata(header: _Header, count: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for _ in range(count):
        key = header.text()
        if key in metadata:
            raise header.refused(f"the key {brief(key)} stands twice")
        metadata[key] = header.value()
    return metadata


def _tensor(header: _Header, path: str) -> _Tensor:
    name = header.text()
    dimensions = header.number(4)
    if dimensions > MOST_DIMENSIONS:
        raise header.refused(f"tensor {brief(name)} has {dimensions} dimensions, at most 4 are allowed")
    sizes = [header.count() for _ in range(dimensions)]
    kind, offset = header.number(4), header.number(8)
    if math.prod(sizes) > LARGEST:
        refuse(path, name, "its shape is larger than any tensor")
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
        size = _size(data.path, tensor)
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
        refuse(path, tensor.name, f"rows of {row} are no whole blocks of {known.block}")
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


class _Header:
    """Reads a header's numbers in the file's own byte order and width."""

    def __init__(self, region: Region) -> None:
        self._path = brief(region.path)
        self._stream = Stream(region, 4)
        number = self._stream.number(4)
        self.swapped = number > 0xFFFF
        """Whether the file was written on a big-endian machine."""
        self._order = ">" if self.swapped else "<"
        self._left = MOST_ITEMS
        self.version = int.from_bytes(number.to_bytes(4, "little"), "big") if self.swapped else number

    @property
    def offset(self) -> int:
        """Where the next byte lies."""
        return self._stream.offset

    def number(self, width: int) -> int:
        """The next unsigned number of `width` bytes."""
        return int.from_bytes(self._stream.take(width), "big" if self.swapped else "little")

    def count(self) -> int:
        """The next count; version 1 wrote them in four bytes."""
        return self.number(4 if self.version == 1 else 8)

    def text(self) -> str:
        """The next text as a name."""
        length = self.count()
        if length > LONGEST_NAME:
            raise self.refused(f"a name of {length} bytes")
        try:
            return self._stream.take(length).decode("utf-8")
        except UnicodeError as error:
            raise self.refused("a name that is not UTF-8") from error

    def value(self) -> Any:
        """The next value with its type before it."""
        return self._value(self.number(4), 0)

    def refused(self, why: str) -> ReadError:
        """What to raise on a header that no writer would make."""
        return ReadError(f"{self._path} is refused: {why}")

    def _value(self, kind: int, depth: int) -> Any:
        if kind in SCALARS:
            code = SCALARS[kind]
            (found,) = struct.unpack(self._order + code, self._stream.take(struct.calcsize("=" + code)))
            return bool(found) if kind == BOOL else found
        if kind == TEXT:
            return self._any_text()
        if kind == LIST and depth < DEEPEST_LIST:
            return self._list(depth + 1)
        raise self.refused(f"a value of type {kind}" if kind != LIST else "lists nested too deep")

    def _any_text(self) -> Any:
        length = self.count()
        if length <= LONGEST_TEXT:
            return self._stream.take(length).decode("utf-8", "backslashreplace")
        self._stream.skip(length)
        return {"length": length}

    def _list(self, depth: int) -> Any:
        """The whole list where it is short; else its length and how it begins."""
        kind, count = self.number(4), self.count()
        self._left -= count if kind not in SCALARS else 0
        if self._left < 0 or count > self._stream.region.size:
            raise self.refused(f"a list of {count} values")
        kept = [self._value(kind, depth) for _ in range(min(count, KEPT_ITEMS))]
        rest = count - len(kept)
        if kind in SCALARS:
            self._stream.skip(rest * struct.calcsize("=" + SCALARS[kind]))
        elif kind == TEXT:
            for _ in range(rest):
                self._stream.skip(self.count())
        else:
            for _ in range(rest):
                self._value(kind, depth)
        return kept if not rest else {"length": count, "first": kept}
