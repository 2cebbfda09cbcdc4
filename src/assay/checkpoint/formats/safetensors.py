"""The safetensors format: a JSON header followed by the tensors without gaps."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NamedTuple

import msgspec

from assay.checkpoint.dtypes import PACKED, SAFETENSORS, unreadable
from assay.checkpoint.entries import ByteRange, Checkpoint, Entry, alignment
from assay.checkpoint.files import Region, truncated
from assay.checkpoint.listing import MAX_TENSORS, NameBudget, count_elements, raise_invalid
from assay.checkpoint.pickle.values import MAX_DIMENSIONS
from assay.document.dtypes import BITS
from assay.errors import ReadError
from assay.messages import one_line, plural

MAX_HEADER_BYTES = 100_000_000
"""The limit that the format itself sets."""
MAX_JSON_BYTES = 128 << 20
"""Memory limit, in bytes, for parsed JSON, by a conservative estimate."""
MAX_LISTING_BYTES = 200 << 20
"""The same limit for a header in which every tensor description is valid."""
ENTRY_BYTES = 440
"""Memory that one tensor takes in addition to its description in the header."""
MAX_CHARACTER_BYTES = 5
"""Memory that a byte of text takes in the header and in a string: one emoji makes all characters four bytes wide."""
METADATA = "__metadata__"


class _Info(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The description of a tensor in the header."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


_FIELDS = tuple(f'"{name}"'.encode() for name in (*_Info.__struct_fields__, METADATA))
_HEADER = msgspec.json.Decoder(dict[str, msgspec.Raw])
_INFO = msgspec.json.Decoder(_Info)

TensorLocation = tuple[int, int, str, "_Kind"]
"""Begin, end, name, and the dtype and shape."""


def read(region: Region, *, lenient: bool) -> Checkpoint:
    """The tensors of a safetensors file; `lenient` accepts extra bytes after the last one."""
    path = one_line(region.path)
    length = int.from_bytes(region.read(0, 8), "little")
    if length > MAX_HEADER_BYTES:
        raise ReadError(f"{path} is rejected: its header has {length} bytes, the limit is {MAX_HEADER_BYTES}")
    if length > region.size - 8:
        raise truncated(region.path, f"its header has {length} bytes, the file {region.size}")
    located, metadata = _header(region.path, region.read(8, length))
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ReadError(f"{path} is not valid safetensors: its __metadata__ is not an object with string values")
    data = region.part(8 + length, region.size - 8 - length)
    located.sort(key=lambda item: item[:2])
    notes = _check_tiling(region.path, located, data.size, lenient=lenient)
    entries = _entries(data, located)
    return Checkpoint(
        "safetensors", region.path, entries, metadata, notes=notes, holds="a safetensors file with an empty header"
    )


def _header(path: str, data: bytes) -> tuple[list[TensorLocation], Any]:
    """The tensors and the `__metadata__` of the header `data`."""
    tensors = data.count(_FIELDS[0])
    # Each tensor has four colons, three of them in its description.
    entries = data.count(b":") - 3 * tensors
    size = len(data) * (1 if data.isascii() else MAX_CHARACTER_BYTES)
    if tensors > MAX_TENSORS:
        raise ReadError(f"{one_line(path)} is rejected: it has {tensors:,} tensors, the limit is {MAX_TENSORS:,}")
    if size + max(entries, 0) * ENTRY_BYTES > MAX_LISTING_BYTES:
        raise ReadError(f"{one_line(path)} is rejected: its header describes more tensors than fit in memory")
    typed = _typed(path, data)
    if typed is not None:
        return typed
    values = parse_json(path, data, "its header")
    metadata = values.pop(METADATA, {})
    kinds: dict[Any, _Kind] = {}
    return [_located(path, name, _described(path, name, value), kinds) for name, value in values.items()], metadata


def _typed(path: str, data: bytes) -> tuple[list[TensorLocation], Any] | None:
    """The fast path of `_header`: typed decoding; None if it cannot prove that the header is valid.

    Without backslashes every field name appears literally, so counting the names detects duplicates.
    """
    try:
        raw = _HEADER.decode(data)
        about = bytes(raw.pop(METADATA, b""))
        if data.count(b"\\") != about.count(b"\\"):
            return None
        metadata = parse_json(path, about, "its __metadata__") if about else {}
        counts = [data.count(field) - about.count(field) for field in _FIELDS]
        if counts != [len(raw)] * 3 + [bool(about)]:
            return None
        kinds: dict[Any, _Kind] = {}
        return [_located(path, name, _INFO.decode(raw.pop(name)), kinds) for name in list(raw)], metadata
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def parse_json(path: str, data: bytes, what: str) -> dict[str, Any]:
    """The JSON object in `data`; `ReadError` if it has duplicate keys, is not UTF-8, or is too large or deep."""
    check_json_size(path, data, what)
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_unique)
        if b"\\u" in data:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeError as error:
        raise ReadError(f"{one_line(path)} is damaged: {what} is not UTF-8") from error
    except _DuplicateKeyError as error:
        raise ReadError(f"{one_line(path)} is rejected: {what} contains the key {one_line(error)} twice") from error
    except ValueError as error:
        raise ReadError(f"{one_line(path)} is damaged: {what} is not valid JSON ({one_line(error)})") from error
    except RecursionError as error:
        raise ReadError(f"{one_line(path)} is rejected: {what} is nested too deep") from error
    if not isinstance(value, dict):
        raise ReadError(f"{one_line(path)} is damaged: {what} is not a JSON object")
    return value


def check_json_size(path: str, data: bytes, what: str) -> None:
    """Raise `ReadError` if the values of this JSON would take too much memory."""
    memory = 120 * (data.count(b"[") + data.count(b"{")) + 48 * data.count(b",") + 4 * len(data)
    if memory > MAX_JSON_BYTES:
        raise ReadError(f"{one_line(path)} is rejected: {what} is too large to parse")


class _DuplicateKeyError(ValueError):
    """A key that appears twice in one object."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise _DuplicateKeyError(Counter(key for key, _ in pairs).most_common(1)[0][0])
    return unique


def _described(path: str, name: str, info: Any) -> _Info:
    """The description `info` with every field checked for its type."""
    try:
        code, shape, (begin, end) = info["dtype"], info["shape"], info["data_offsets"]
    except (TypeError, KeyError, ValueError):
        raise_invalid(path, name, "its description lacks dtype, shape or data_offsets")
    if type(begin) is not int or type(end) is not int:
        raise_invalid(path, name, f"data_offsets [{begin!r}, {end!r}] are not a byte range")
    if type(code) is not str or type(shape) is not list or len(info) != 3:
        raise_invalid(path, name, "its description must have exactly dtype, shape and data_offsets")
    if not all(type(size) is int for size in shape):
        raise_invalid(path, name, f"shape {shape!r} is not a list of sizes")
    return _Info(code, tuple(shape), (begin, end))


def _located(path: str, name: str, info: _Info, kinds: dict[Any, _Kind]) -> TensorLocation:
    """The location of a tensor, checked against its size; `kinds` caches the few distinct dtypes and shapes."""
    kind = kinds.get((info.dtype, info.shape))
    if kind is None:
        kind = kinds[info.dtype, info.shape] = _kind(path, name, info)
    begin, end = info.data_offsets
    if not 0 <= begin <= end:
        raise_invalid(path, name, f"data_offsets [{begin!r}, {end!r}] are not a byte range")
    if end - begin != kind.size and kind.size is not None:
        wrong = f"shape {list(info.shape)!r} of {info.dtype} takes {kind.size} bytes, not {end - begin}"
        raise_invalid(path, name, wrong)
    return begin, end, name, kind


class _Kind(NamedTuple):
    """The properties shared by all tensors of one dtype and shape."""

    dtype: str
    shape: tuple[int, ...]
    size: int | None
    """Bytes; None if the dtype is unknown."""
    problem: str


def _kind(path: str, name: str, info: _Info) -> _Kind:
    shape = info.shape
    if len(shape) > MAX_DIMENSIONS:
        raise_invalid(path, name, f"it has {len(shape)} dimensions, the limit is {MAX_DIMENSIONS}")
    if min(shape, default=0) < 0:
        raise_invalid(path, name, f"shape {list(shape)!r} is not a list of sizes")
    elements = count_elements(path, name, shape)
    code = info.dtype
    name_in_torch = SAFETENSORS.get(code)
    dtype, bits = (name_in_torch, BITS[name_in_torch]) if name_in_torch else PACKED.get(code, (code, None))
    if bits is None:
        return _Kind(code, shape, None, f"unknown dtype {one_line(code, 40)}")
    if elements * bits % 8:
        raise_invalid(path, name, f"shape {list(shape)!r} of {code} does not fill whole bytes")
    return _Kind(dtype, shape, elements * bits // 8, unreadable(dtype))


def _check_tiling(path: str, located: list[TensorLocation], size: int, *, lenient: bool) -> tuple[str, ...]:
    """Raise `ReadError` for gaps, overlaps and missing bytes; a note on extra bytes at the end if `lenient`."""
    at = 0
    for begin, end, name, _ in located:
        if begin < at:
            raise_invalid(path, name, f"its bytes overlap those of another tensor before byte {at}")
        if begin > at:
            raise_invalid(path, name, f"there is a gap of {plural(begin - at, 'byte')} before it")
        if end > size:
            raise truncated(path, f"tensor {one_line(name)} ends at byte {end}, the data at {size}")
        at = end
    if at == size:
        return ()
    if not lenient:
        extra = f"{plural(size - at, 'extra byte')} after the last tensor (a lenient read ignores them)"
        raise ReadError(f"{one_line(path)} is rejected: {extra}")
    return (f"{plural(size - at, 'extra byte')} after the last tensor ignored",)


def _entries(data: Region, located: list[TensorLocation]) -> list[Entry]:
    """One entry per tensor; empties `located` on the way, because both lists together may take a lot of memory."""
    located.reverse()
    entries: list[Entry] = []
    budget = NameBudget(data.path)
    while located:
        begin, end, name, kind = located.pop()
        budget.add(name)
        start, size = data.base + begin, end - begin
        span = ByteRange(data.path, start, size) if size else None
        aligned = alignment(start) if size else 0
        entries.append(Entry((name,), kind.dtype, kind.shape, None, span, size, aligned, 0, kind.problem))
    return entries
