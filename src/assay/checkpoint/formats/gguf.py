"""GGUF: reads the header, skipping long lists, and locates each tensor; `decoding` dequantises blocks."""

from __future__ import annotations

import math
import struct
from typing import Any, NamedTuple

from msgspec.structs import replace

from assay.checkpoint.decoding import dequantisation_problem
from assay.checkpoint.entries import ByteRange, Checkpoint, EncodedBytes, Entry, alignment
from assay.checkpoint.files import Region, truncated
from assay.checkpoint.formats.gguf_types import (
    BOOL,
    DEFAULT_ALIGNMENT,
    LIST,
    MAX_ALIGNMENT,
    SCALARS,
    TENSOR_TYPES,
    TEXT,
    VERSIONS,
    GgufType,
)
from assay.checkpoint.listing import MAX_NAME_LENGTH, MAX_TENSORS, NameBudget, count_elements, raise_invalid
from assay.checkpoint.stream import Stream
from assay.errors import ReadError
from assay.messages import one_line, plural

MAX_VALUES = 10_000
MAX_DIMENSIONS = 4
MIN_TENSOR_BYTES = 24
"""Bytes of the shortest possible tensor description."""
MIN_VALUE_BYTES = 12
"""The same for a metadata value."""
MAX_TEXT_LENGTH = 1 << 16
MAX_TEXT_BYTES = 8 << 20
"""Longer values (whole vocabularies), and those beyond this total, are skipped; only their length is kept."""
MAX_ITEMS = 4_000_000
"""Limit for all lists together; the largest vocabularies have approximately 300,000 tokens and as many merges."""
KEPT_ITEMS = 8
MAX_LIST_DEPTH = 4


class _Tensor(NamedTuple):
    name: str
    shape: tuple[int, ...]
    type: int
    offset: int


def read(region: Region) -> Checkpoint:
    """The tensors of a GGUF file, with shapes in torch's order."""
    path = one_line(region.path)
    header = _Header(region)
    version = header.version
    if version not in VERSIONS:
        raise ReadError(f"{path} is GGUF version {version}: expected version {', '.join(map(str, VERSIONS))}")
    count, values = header.count(), header.count()
    if count > region.size // MIN_TENSOR_BYTES or values > region.size // MIN_VALUE_BYTES:
        raise header.rejected(f"it declares {count} tensors and {values} metadata values, more than fit in the file")
    if count > MAX_TENSORS or values > MAX_VALUES:
        limits = f"the limits are {MAX_TENSORS:,} and {MAX_VALUES:,}"
        raise header.rejected(f"it has {count:,} tensors and {values:,} metadata values, {limits}")
    metadata = _metadata(header, values)
    budget = NameBudget(region.path)
    tensors = [_tensor(header, region.path, budget) for _ in range(count)]
    step = _alignment(path, metadata)
    start = -(-header.offset // step) * step
    metadata["gguf.version"] = version
    entries = _entries(region, start, step, tensors, swapped=header.swapped)
    holds = f"a GGUF file with {plural(values, 'metadata value')}"
    return Checkpoint("gguf", region.path, entries, metadata, notes=_notes(metadata), holds=holds)


def _metadata(header: _Header, count: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for _ in range(count):
        key = header.text()
        if key in metadata:
            raise header.rejected(f"the metadata key {one_line(key)} appears twice")
        metadata[key] = header.value()
    return metadata


def _tensor(header: _Header, path: str, budget: NameBudget) -> _Tensor:
    name = header.text()
    budget.add(name)
    dimensions = header.number(4)
    if dimensions > MAX_DIMENSIONS:
        raise header.rejected(f"tensor {one_line(name)} has {dimensions} dimensions, the limit is {MAX_DIMENSIONS}")
    sizes = [header.count() for _ in range(dimensions)]
    kind, offset = header.number(4), header.number(8)
    count_elements(path, name, sizes)
    return _Tensor(name, tuple(reversed(sizes)), kind, offset)


def _alignment(path: str, metadata: dict[str, Any]) -> int:
    step = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if type(step) is not int or not 0 < step <= MAX_ALIGNMENT or step & (step - 1):
        raise ReadError(f"{path} is rejected: alignment {one_line(step)} is not a power of 2 up to {MAX_ALIGNMENT}")
    return step


def _entries(data: Region, start: int, step: int, tensors: list[_Tensor], *, swapped: bool) -> list[Entry]:
    """The entries in file order; checks that tensors do not overlap and end inside the file."""
    path = one_line(data.path)
    if len({tensor.name for tensor in tensors}) != len(tensors):
        raise ReadError(f"{path} is rejected: two tensors have the same name")
    ends: dict[str, int] = {}
    following = data.size
    for tensor in sorted(tensors, key=lambda tensor: (tensor.offset, tensor.name), reverse=True):
        first = start + tensor.offset
        size = _size(data.path, tensor)
        last = following if size is None else first + size
        if tensor.offset % step or first > data.size:
            wrong = f"offset {tensor.offset} of tensor {one_line(tensor.name)} is not aligned or is past the end"
            raise ReadError(f"{path} is rejected: {wrong}")
        if last > data.size:
            raise truncated(data.path, f"tensor {one_line(tensor.name)} ends at byte {last}, the file at {data.size}")
        if last > following:
            raise ReadError(f"{path} is rejected: tensor {one_line(tensor.name)} overlaps another")
        ends[tensor.name] = last
        following = first if last > first else following
    entries = [_entry(data, start + tensor.offset, ends[tensor.name], tensor, swapped=swapped) for tensor in tensors]
    problem = dequantisation_problem() if any(entry.encoded and entry.encoded.dtype for entry in entries) else ""
    return [replace(entry, problem=problem) if entry.encoded and entry.encoded.dtype else entry for entry in entries]


def _size(path: str, tensor: _Tensor) -> int | None:
    """Bytes of a tensor; None if its type is unknown."""
    gguf_type = TENSOR_TYPES.get(tensor.type)
    if gguf_type is None:
        return None
    row = tensor.shape[-1] if tensor.shape else 1
    if row % gguf_type.block:
        raise_invalid(
            path, tensor.name, f"its row length {row} is not a multiple of the block size {gguf_type.block}"
        )
    return math.prod(tensor.shape) // gguf_type.block * gguf_type.bytes


def _entry(data: Region, first: int, last: int, tensor: _Tensor, *, swapped: bool) -> Entry:
    gguf_type = TENSOR_TYPES.get(tensor.type)
    dtype = gguf_type.dtype if gguf_type else f"gguf:type{tensor.type}"
    size = last - first
    stored = ByteRange(data.path, data.base + first, size)
    encoded, problem = _encoded(stored, tensor, gguf_type, swapped)
    if not size:
        return Entry((tensor.name,), dtype, tensor.shape, None, None, 0, 0, problem=problem, encoded=encoded)
    span = stored if encoded is None else ByteRange(data.path, 0, encoded.size)
    aligned = alignment(stored.offset)
    return Entry((tensor.name,), dtype, tensor.shape, None, span, size, aligned, 0, problem, encoded=encoded)


def _encoded(
    stored: ByteRange, tensor: _Tensor, gguf_type: GgufType | None, swapped: bool
) -> tuple[EncodedBytes | None, str]:
    """How to decode the stored bytes (None if they are plain), or why that is not possible."""
    if gguf_type is None:
        return None, f"unknown GGUF type {tensor.type}"
    if gguf_type.block == 1:
        is_encoded = swapped and gguf_type.bytes > 1
        return EncodedBytes(stored, f"swapped:{gguf_type.bytes}", stored.length) if is_encoded else None, ""
    if swapped:
        return None, "block-quantised and big-endian: not supported"
    return EncodedBytes(stored, gguf_type.dtype, math.prod(tensor.shape) * 4, "float32"), ""


def _notes(metadata: dict[str, Any]) -> tuple[str, ...]:
    number, count = metadata.get("split.no"), metadata.get("split.count")
    if type(number) is not int or type(count) is not int or count < 2:
        return ()
    return (f"this is part {number + 1} of {count}: give the directory to read all parts",)


class _Header:
    """Reads the header in the file's byte order and integer width."""

    def __init__(self, region: Region) -> None:
        self._path = one_line(region.path)
        self._stream = Stream(region, 4)
        number = self._stream.number(4)
        self.swapped = number > 0xFFFF
        """Whether the file was written on a big-endian machine."""
        self._order = ">" if self.swapped else "<"
        self._left = MAX_ITEMS
        self._text_left = MAX_TEXT_BYTES
        self.version = int.from_bytes(number.to_bytes(4, "little"), "big") if self.swapped else number

    @property
    def offset(self) -> int:
        """The offset of the next byte."""
        return self._stream.offset

    def number(self, width: int) -> int:
        """The next unsigned number of `width` bytes."""
        return int.from_bytes(self._stream.take(width), "big" if self.swapped else "little")

    def count(self) -> int:
        """The next count: 8 bytes, or 4 in version 1."""
        return self.number(4 if self.version == 1 else 8)

    def text(self) -> str:
        """The next string, which must be a short name in UTF-8."""
        length = self.count()
        if length > MAX_NAME_LENGTH:
            raise self.rejected(f"its header has a name of {length} bytes")
        try:
            return self._stream.take(length).decode("utf-8")
        except UnicodeError as error:
            raise self.rejected("its header has a name that is not UTF-8") from error

    def value(self) -> Any:
        """The next value, which is preceded by its type."""
        return self._value(self.number(4), 0)

    def rejected(self, why: str) -> ReadError:
        """The error for a header that no GGUF writer would produce."""
        return ReadError(f"{self._path} is rejected: {why}")

    def _value(self, kind: int, depth: int) -> Any:
        if kind in SCALARS:
            code = SCALARS[kind]
            (number,) = struct.unpack(self._order + code, self._stream.take(struct.calcsize("=" + code)))
            return bool(number) if kind == BOOL else number
        if kind == TEXT:
            return self._any_text()
        if kind == LIST and depth < MAX_LIST_DEPTH:
            return self._list(depth + 1)
        raise self.rejected("its lists are nested too deep" if kind == LIST else f"unknown metadata type {kind}")

    def _any_text(self) -> Any:
        length = self.count()
        if length <= min(MAX_TEXT_LENGTH, self._text_left):
            self._text_left -= length
            return self._stream.take(length).decode("utf-8", "backslashreplace")
        self._stream.skip(length)
        return {"length": length}

    def _list(self, depth: int) -> Any:
        """The whole list if it is short; else its length and first items."""
        kind, count = self.number(4), self.count()
        self._left -= count if kind not in SCALARS else 0
        if self._left < 0 or count > self._stream.region.size:
            raise self.rejected(f"its metadata has a list of {count} values")
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
