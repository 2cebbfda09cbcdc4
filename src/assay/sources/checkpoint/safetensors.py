"""safetensors: a JSON header, then the tensors end to end."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NoReturn

from assay.document.dtypes import BITS
from assay.errors import ReadError
from assay.sources.checkpoint.dtypes import PACKED, SAFETENSORS, unreadable
from assay.sources.checkpoint.entries import Checkpoint, Entry, Span, alignment
from assay.sources.checkpoint.files import Region
from assay.sources.checkpoint.listing import LARGEST, MOST_DIMENSIONS
from assay.sources.wording import brief

LARGEST_HEADER = 24 << 20
"""Twice what the largest model seen would need in one file."""
LARGEST_TREE = 128 << 20
"""Bytes of memory that a header may take once it is parsed, by a cautious estimate."""


def read(region: Region, *, lenient: bool) -> Checkpoint:
    """The tensors of a safetensors file; `lenient` accepts bytes after the last one."""
    path = brief(region.path)
    length = int.from_bytes(region.read(0, 8), "little")
    if length > region.size - 8:
        raise ReadError(f"{path} is refused: a header of {length} bytes in a file of {region.size}")
    if length > LARGEST_HEADER:
        raise ReadError(f"{path} is refused: a header of {length} bytes, at most {LARGEST_HEADER} are read")
    header = parse_json(region.path, region.read(8, length), "its header")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ReadError(f"{path} is refused: its __metadata__ is no table of texts")
    data = region.part(8 + length, region.size - 8 - length)
    located = sorted((_located(path, name, info) for name, info in header.items()), key=lambda item: item[1:3])
    notes = _check_tiling(path, located, data.size, lenient=lenient)
    return Checkpoint("safetensors", region.path, [_entry(data, *item) for item in located], metadata, notes=notes)


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


Located = tuple[str, int, int, str, tuple[int, ...], str]
"""Name, begin, end, dtype, shape, problem."""


def _located(path: str, name: str, info: Any) -> Located:
    try:
        code, shape, (begin, end) = info["dtype"], info["shape"], info["data_offsets"]
    except (TypeError, KeyError, ValueError):
        _refuse(path, name, "its description lacks dtype, shape or data_offsets")
    if type(begin) is not int or type(end) is not int or not 0 <= begin <= end:
        _refuse(path, name, f"data_offsets {begin!r}, {end!r} are no range of bytes")
    if type(code) is not str or type(shape) is not list or len(shape) > MOST_DIMENSIONS or len(info) != 3:
        _refuse(path, name, "its description is no dtype, shape and data_offsets")
    elements = 1
    for size in shape:
        if type(size) is not int or size < 0:
            _refuse(path, name, f"shape {shape!r} is no list of sizes")
        elements *= size
    if elements > LARGEST:
        _refuse(path, name, f"shape {shape!r} is larger than any tensor")
    dtype, bits = _dtype(code)
    if bits is not None and elements * bits != (end - begin) * 8:
        _refuse(path, name, f"shape {shape!r} of {code} does not take the {end - begin} bytes it is given")
    problem = f"unknown dtype {brief(code, 40)}" if bits is None else unreadable(dtype)
    return name, begin, end, dtype, tuple(shape), problem


def _dtype(code: str) -> tuple[str, int | None]:
    if code in SAFETENSORS:
        return SAFETENSORS[code], BITS[SAFETENSORS[code]]
    return PACKED.get(code, (code, None))


def _check_tiling(path: str, located: list[Located], size: int, *, lenient: bool) -> tuple[str, ...]:
    """Refuse holes, overlaps and missing bytes; a note on bytes left over where that is allowed."""
    at = 0
    for name, begin, end, *_ in located:
        if begin < at:
            _refuse(path, name, f"its bytes overlap those of another tensor before byte {at}")
        if begin > at:
            _refuse(path, name, f"{begin - at} bytes before it belong to no tensor")
        if end > size:
            raise ReadError(f"{path} is cut short: tensor {brief(name)} ends at byte {end} of {size} that are there")
        at = end
    if at == size:
        return ()
    if not lenient:
        raise ReadError(f"{path} is refused: {size - at} bytes after the last tensor (a lenient read ignores them)")
    return (f"{size - at} bytes after the last tensor were ignored",)


def _entry(data: Region, name: str, begin: int, end: int, dtype: str, shape: tuple[int, ...], problem: str) -> Entry:
    if begin == end:
        return Entry((name,), dtype, shape, None, None, 0, 0, problem=problem)
    start = data.base + begin
    return Entry(
        (name,), dtype, shape, None, Span(data.path, start, end - begin), end - begin, alignment(start), 0, problem
    )


def _refuse(path: str, name: str, why: str) -> NoReturn:
    raise ReadError(f"{path} is refused: tensor {brief(name)}: {brief(why)}")
