"""The .npy format: a header with dtype, order and shape, then the values. Object arrays are never loaded."""

from __future__ import annotations

import ast
import math
import re
from typing import Any, NamedTuple

from assay.checkpoint.dtypes import NUMPY, item_bytes
from assay.checkpoint.entries import ByteRange, Checkpoint, EncodedBytes, Entry, alignment
from assay.checkpoint.files import Region, truncated
from assay.checkpoint.listing import MAX_ELEMENTS, raise_invalid
from assay.checkpoint.pickle.values import MAX_DIMENSIONS, SWAPPED, contiguous_strides
from assay.errors import ReadError
from assay.messages import one_line, plural

FORMAT, SUFFIX = "npy", ".npy"
MAX_HEADER_BYTES = 1 << 16
_LENGTH_BYTES = {b"\1\0": 2, b"\2\0": 4, b"\3\0": 4}
"""Bytes of the header's length, by version."""
_PREFIX_BYTES = 8
"""Bytes of the magic string and version."""
_LITERAL = re.compile(r"""(?:[\s\d\[\](){},:]|True|False|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")*""", re.DOTALL)
"""What numpy's headers consist of. There are no operators, so the depth is that of brackets, which Python limits."""
_LONG = re.compile(r"(?<=\d)L(?=[,)])")
"""The end of a size that Python 2 wrote."""
_EXTENSIONS = {"<V2": "bfloat16", "<f1": "float8_e5m2"}
"""Dtypes of ml_dtypes: numpy writes them without their names, which only these two do not need."""


class _Header(NamedTuple):
    descr: Any
    """A code such as `<f4`, or the fields of a structured array."""
    fortran: bool
    shape: tuple[int, ...]
    end: int
    """Offset of the first value."""


class _Type(NamedTuple):
    """How values are stored; `problem` is set if they are not numbers that can be read."""

    dtype: str
    width: int | None
    """Bytes of one value; None if unknown."""
    swapped: int = 0
    """Bytes of the numbers whose order is reversed; 0 if none is."""
    problem: str = ""


def read(region: Region) -> Checkpoint:
    """The array of a .npy file, named after the file."""
    name = re.split(r"[/\\]", region.path)[-1].removesuffix(SUFFIX)
    entry, extra = array_in(region, name)
    return Checkpoint(FORMAT, region.path, [entry], notes=extra_note(extra))


def extra_note(extra: int) -> tuple[str, ...]:
    """A note on the bytes after an array, which numpy.load ignores too."""
    return (f"{plural(extra, 'byte')} after the array ignored",) if extra else ()


def array_in(region: Region, name: str) -> tuple[Entry, int]:
    """The array that starts at the beginning of `region`, and the number of bytes that follow it."""
    header = _header(region)
    shape, kind = header.shape, _type(header.descr)
    elements = math.prod(shape)
    if len(shape) > MAX_DIMENSIONS or elements > MAX_ELEMENTS or max(shape, default=0) > MAX_ELEMENTS:
        raise_invalid(region.path, name, "its shape is larger than any array can be")
    left = region.size - header.end
    size = left if kind.width is None and elements else elements * (kind.width or 0)
    if size > left:
        raise truncated(region.path, f"array {one_line(name)} takes {size} bytes, and {left} are left")
    if not size:
        return Entry((name,), kind.dtype, shape, None, None, 0, 0, problem=kind.problem), left
    span, encoded, problem = _located(region, header.end, size, kind)
    strides = contiguous_strides(shape[::-1])[::-1] if header.fortran and not _is_flat(shape) else None
    aligned = alignment(region.base + header.end) if region.file.encoded is None else 0
    return Entry((name,), kind.dtype, shape, strides, span, size, aligned, 0, problem, encoded=encoded), left - size


def _located(region: Region, start: int, size: int, kind: _Type) -> tuple[ByteRange, EncodedBytes | None, str]:
    """The bytes of an array, how to decode them, and why they cannot be read, if so."""
    span, encoded = ByteRange(region.path, region.base + start, size), region.file.encoded
    if not kind.swapped:
        return span, encoded, kind.problem
    if encoded is not None:
        return span, encoded, SWAPPED
    return ByteRange(region.path, 0, size), EncodedBytes(span, f"swapped:{kind.swapped}", size), ""


def _is_flat(shape: tuple[int, ...]) -> bool:
    """Whether row-major and column-major order are the same."""
    return sum(size != 1 for size in shape) <= 1


def _header(region: Region) -> _Header:
    path = one_line(region.path)
    prefix = region.read(0, min(_PREFIX_BYTES, region.size))
    width = _LENGTH_BYTES.get(prefix[6:])
    if width is None or prefix[:6] != b"\x93NUMPY":
        version = f"version {prefix[6]}.{prefix[7]}" if len(prefix) == _PREFIX_BYTES else "cut short"
        raise ReadError(f"{path} has an unknown .npy header ({version}): expected version 1.0 to 3.0")
    length = int.from_bytes(region.read(_PREFIX_BYTES, width), "little")
    if length > MAX_HEADER_BYTES:
        raise ReadError(f"{path} is rejected: its .npy header has {length} bytes, the limit is {MAX_HEADER_BYTES}")
    text = region.read(_PREFIX_BYTES + width, length)
    return _parsed(region.path, text.decode("utf-8" if prefix[6] == 3 else "latin-1", "replace"))._replace(
        end=_PREFIX_BYTES + width + length
    )


def _parsed(path: str, text: str) -> _Header:
    """The fields of a header, whose text is a Python dictionary of constants."""
    text = _LONG.sub("", text)
    try:
        value = ast.literal_eval(text.strip()) if _LITERAL.fullmatch(text) else None
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        value = None
    fields = value if isinstance(value, dict) else {}
    descr, fortran, shape = (fields.get(name) for name in ("descr", "fortran_order", "shape"))
    is_shape = isinstance(shape, tuple) and all(type(size) is int and size >= 0 for size in shape)
    if len(fields) != 3 or not isinstance(descr, (str, list, tuple)) or type(fortran) is not bool or not is_shape:
        raise ReadError(f"{one_line(path)} is damaged: its .npy header lacks a valid descr, fortran_order or shape")
    return _Header(descr, fortran, tuple(shape or ()), 0)


def _type(descr: Any) -> _Type:
    if not isinstance(descr, str):
        return _Type("structured", None, problem="a structured array: save each field as an array of its own")
    order, code = descr[:1], descr[1:]
    if code == "O":
        return _Type("object", None, problem="an array of Python objects, which is a pickle: not loaded")
    dtype = _EXTENSIONS.get(descr) or NUMPY.get(code) if order in "<>|=" else None
    width = item_bytes(dtype) if dtype else None
    if dtype is None or width is None:
        return _Type(one_line(code or descr, 40), None, problem=_unsupported(descr))
    part = width // 2 if dtype.startswith("complex") else width
    return _Type(dtype, width, part if order == ">" and part > 1 else 0)


def _unsupported(descr: str) -> str:
    if descr == "<V1":
        return "one of several 8-bit types of ml_dtypes: numpy does not store which"
    return f"numpy dtype {one_line(descr, 40)} is not supported"
