"""safetensors: a JSON header, then the tensors end to end."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any, NamedTuple

import msgspec

from assay.checkpoint.dtypes import PACKED, SAFETENSORS, unreadable
from assay.checkpoint.entries import ByteRange, Checkpoint, Entry, alignment
from assay.checkpoint.files import Region
from assay.checkpoint.listing import LARGEST, refuse
from assay.checkpoint.pickle.values import MOST_DIMENSIONS
from assay.document.dtypes import BITS
from assay.errors import ReadError
from assay.messages import brief

LARGEST_HEADER = 100_000_000
"""The format's own limit."""
LARGEST_TREE = 128 << 20
"""Bytes of memory that JSON may take once it is parsed, by a cautious estimate."""
LARGEST_LISTING = 200 << 20
"""The same for a header whose every tensor is described as it should be."""
ENTRY_BYTES = 440
"""Memory that one tensor takes besides its description in the header."""
METADATA = "__metadata__"


class _Info(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A tensor's description, as the header has it."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


_FIELDS = tuple(f'"{name}"'.encode() for name in (*_Info.__struct_fields__, METADATA))
_HEADER = msgspec.json.Decoder(dict[str, msgspec.Raw])
_INFO = msgspec.json.Decoder(_Info)

TensorLocation = tuple[int, int, str, "_Kind"]
"""Begin, end, name and what it shares with others."""


def read(region: Region, *, lenient: bool) -> Checkpoint:
    """The tensors of a safetensors file; `lenient` accepts bytes after the last one."""
    path = brief(region.path)
    length = int.from_bytes(region.read(0, 8), "little")
    if length > region.size - 8:
        raise ReadError(f"{path} is refused: a header of {length} bytes in a file of {region.size}")
    if length > LARGEST_HEADER:
        raise ReadError(f"{path} is refused: a header of {length} bytes, at most {LARGEST_HEADER} are read")
    located, metadata = _header(region.path, region.read(8, length))
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ReadError(f"{path} is refused: its __metadata__ is no table of texts")
    data = region.part(8 + length, region.size - 8 - length)
    located.sort(key=lambda item: item[:2])
    notes = _check_tiling(region.path, located, data.size, lenient=lenient)
    return Checkpoint("safetensors", region.path, _entries(data, located), metadata, notes=notes)


def _header(path: str, data: bytes) -> tuple[list[TensorLocation], Any]:
    """The tensors, and what the file says of itself."""
    # Each tensor brings four colons, three of them before its fields.
    found = data.count(b":") - 3 * data.count(_FIELDS[0])
    if len(data) + max(found, 0) * ENTRY_BYTES > LARGEST_LISTING:
        raise ReadError(f"{brief(path)} is refused: its header describes more than a checkpoint has")
    typed = _typed(path, data)
    if typed is not None:
        return typed
    values = parse_json(path, data, "its header")
    metadata = values.pop(METADATA, {})
    kinds: dict[Any, _Kind] = {}
    return [_located(path, name, _described(path, name, value), kinds) for name, value in values.items()], metadata


def _typed(path: str, data: bytes) -> tuple[list[TensorLocation], Any] | None:
    """The header read at once; None where that does not show whether all of it is as it should be.

    Without a backslash every field stands there as it is spelt, so that counting shows one that is there twice.
    """
    try:
        raw = _HEADER.decode(data)
        own = bytes(raw.pop(METADATA, b""))
        if data.count(b"\\") != own.count(b"\\"):
            return None
        metadata = parse_json(path, own, "its __metadata__") if own else {}
        counts = [data.count(field) - own.count(field) for field in _FIELDS]
        if counts != [len(raw)] * 3 + [bool(own)]:
            return None
        kinds: dict[Any, _Kind] = {}
        return [_located(path, name, _INFO.decode(raw.pop(name)), kinds) for name in list(raw)], metadata
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def parse_json(path: str, data: bytes, what: str) -> dict[str, Any]:
    """The object in `data`, refused where it is no plain one: twice the same key, no UTF-8, nested without end."""
    weight = 120 * (data.count(b"[") + data.count(b"{")) + 48 * data.count(b",") + 4 * len(data)
    if weight > LARGEST_TREE:
        raise ReadError(f"{brief(path)} is refused: {what} describes more than a checkpoint has")
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_unique)
        if b"\\u" in data:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeError as error:
        raise ReadError(f"{brief(path)} is refused: {what} is not UTF-8") from error
    except _TwiceError as error:
        raise ReadError(f"{brief(path)} is refused: {what} holds {brief(error)} twice") from error
    except ValueError as error:
        raise ReadError(f"{brief(path)} is damaged: {what} is no JSON ({brief(error)})") from error
    except RecursionError as error:
        raise ReadError(f"{brief(path)} is refused: {what} is nested without end") from error
    if not isinstance(value, dict):
        raise ReadError(f"{brief(path)} is damaged: {what} is no JSON object")
    return value


class _TwiceError(ValueError):
    """A key that stands twice in one object."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _TwiceError(Counter(key for key, _ in pairs).most_common(1)[0][0])
    return found


def _described(path: str, name: str, info: Any) -> _Info:
    """A description whose every field is of the right type."""
    try:
        code, shape, (begin, end) = info["dtype"], info["shape"], info["data_offsets"]
    except (TypeError, KeyError, ValueError):
        refuse(path, name, "its description lacks dtype, shape or data_offsets")
    if type(begin) is not int or type(end) is not int:
        refuse(path, name, f"data_offsets {begin!r}, {end!r} are no range of bytes")
    if type(code) is not str or type(shape) is not list or len(info) != 3:
        refuse(path, name, "its description is no dtype, shape and data_offsets")
    if not all(type(size) is int for size in shape):
        refuse(path, name, f"shape {shape!r} is no list of sizes")
    return _Info(code, tuple(shape), (begin, end))


def _located(path: str, name: str, info: _Info, kinds: dict[Any, _Kind]) -> TensorLocation:
    """Where a tensor lies, checked by itself; `kinds` are those known so far, of which a model has few."""
    kind = kinds.get((info.dtype, info.shape))
    if kind is None:
        kind = kinds[info.dtype, info.shape] = _kind(path, name, info)
    begin, end = info.data_offsets
    if not 0 <= begin <= end:
        refuse(path, name, f"data_offsets {begin!r}, {end!r} are no range of bytes")
    if end - begin != kind.size and kind.size is not None:
        wrong = f"shape {list(info.shape)!r} of {info.dtype} does not take the {end - begin} bytes it is given"
        refuse(path, name, wrong)
    return begin, end, name, kind


class _Kind(NamedTuple):
    """What tensors of one dtype and shape have in common."""

    dtype: str
    shape: tuple[int, ...]
    size: int | None
    """Bytes; None where the dtype is unknown."""
    problem: str


def _kind(path: str, name: str, info: _Info) -> _Kind:
    shape = info.shape
    if len(shape) > MOST_DIMENSIONS:
        refuse(path, name, f"it has {len(shape)} dimensions, at most {MOST_DIMENSIONS} are read")
    if min(shape, default=0) < 0:
        refuse(path, name, f"shape {list(shape)!r} is no list of sizes")
    elements = math.prod(shape)
    if elements > LARGEST:
        refuse(path, name, f"shape {list(shape)!r} is larger than any tensor")
    code = info.dtype
    known = SAFETENSORS.get(code)
    dtype, bits = (known, BITS[known]) if known else PACKED.get(code, (code, None))
    if bits is None:
        return _Kind(code, shape, None, f"unknown dtype {brief(code, 40)}")
    if elements * bits % 8:
        refuse(path, name, f"shape {list(shape)!r} of {code} takes no whole bytes")
    return _Kind(dtype, shape, elements * bits // 8, unreadable(dtype))


def _check_tiling(path: str, located: list[TensorLocation], size: int, *, lenient: bool) -> tuple[str, ...]:
    """Refuse holes, overlaps and missing bytes; a note on bytes left over where that is allowed."""
    at = 0
    for begin, end, name, _ in located:
        if begin < at:
            refuse(path, name, f"its bytes overlap those of another tensor before byte {at}")
        if begin > at:
            refuse(path, name, f"{begin - at} bytes before it belong to no tensor")
        if end > size:
            ends = f"tensor {brief(name)} ends at byte {end} of {size} that are there"
            raise ReadError(f"{brief(path)} is cut short: {ends}")
        at = end
    if at == size:
        return ()
    if not lenient:
        left = f"{size - at} bytes after the last tensor (a lenient read ignores them)"
        raise ReadError(f"{brief(path)} is refused: {left}")
    return (f"{size - at} bytes after the last tensor were ignored",)


def _entries(data: Region, located: list[TensorLocation]) -> list[Entry]:
    """One entry for each tensor; `located` is used up, for both together may take a lot of memory."""
    located.reverse()
    entries: list[Entry] = []
    while located:
        begin, end, name, kind = located.pop()
        start, size = data.base + begin, end - begin
        span = ByteRange(data.path, start, size) if size else None
        place = alignment(start) if size else 0
        entries.append(Entry((name,), kind.dtype, kind.shape, None, span, size, place, 0, kind.problem))
    return entries
