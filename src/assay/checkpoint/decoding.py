"""Decodes stored bytes that can be read from any position: byte-swapped numbers and GGUF blocks."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from assay.checkpoint.entries import EncodedBytes
from assay.checkpoint.formats.gguf_types import BLOCKS
from assay.errors import ReadError
from assay.messages import error_line, one_line

PIECE = 1 << 18
"""Numbers dequantised at a time: some types need temporary arrays many times their size."""
_FLOAT_BYTES = 4

ReadStored = Callable[[int, int], bytes]
"""Reads a range of the stored bytes: (offset, length)."""


def decode(encoded: EncodedBytes, offset: int, length: int, stored: ReadStored) -> bytes:
    """`length` decoded bytes from `offset`; the encoding must allow reading from any position (swapped, gguf)."""
    kind, _, detail = encoded.kind.partition(":")
    return _KINDS[kind](detail, offset, length, stored)


def dequantisation_problem() -> str:
    """Why block-quantised tensors cannot be read in this environment; empty if they can."""
    installed = find_spec("gguf") is not None
    return "" if installed else "block-quantised: run pip install torch-assay[gguf] to compute its statistics"


def _swapped(width: str, offset: int, length: int, stored: ReadStored) -> bytes:
    size = int(width)
    data = stored(offset, length)
    out = bytearray(length)
    for index in range(size):
        out[index::size] = data[size - 1 - index :: size]
    return bytes(out)


def _dequantised(name: str, offset: int, length: int, stored: ReadStored) -> bytes:
    """Dequantise the whole blocks that cover the requested range, then cut the range out of them."""
    block, size = BLOCKS[name]
    first = offset // _FLOAT_BYTES // block
    last = -(-(offset + length) // (_FLOAT_BYTES * block))
    unpack = _unpacker(name)
    step = PIECE // block
    pieces = [
        unpack(stored(at * size, min(step, last - at) * size), min(step, last - at) * block)
        for at in range(first, last, step)
    ]
    skipped = offset - first * block * _FLOAT_BYTES
    return b"".join(pieces)[skipped : skipped + length]


def _unpacker(name: str) -> Callable[[bytes, int], bytes]:
    """A function that dequantises blocks of type `name` with the gguf package."""
    import numpy as np

    quants = _package()
    kind = getattr(quants.GGMLQuantizationType, name.upper(), None)

    def unpack(data: bytes, count: int) -> bytes:
        try:
            with np.errstate(all="ignore"):
                floats = quants.dequantize(np.frombuffer(data, dtype=np.uint8).reshape(1, -1), kind)
        except (NotImplementedError, AttributeError) as error:
            raise ReadError(f"the installed gguf package cannot dequantise {one_line(name)}: upgrade it") from error
        plain = np.ascontiguousarray(floats, dtype="<f4").tobytes()
        if len(plain) != count * _FLOAT_BYTES:
            raise ReadError(f"the gguf package returned {len(plain)} bytes for {count} numbers of {one_line(name)}")
        return plain

    return unpack


def _package() -> Any:
    try:
        from gguf import quants
    # A broken installation may raise anything on import.
    except Exception as error:
        raise ReadError(f"cannot import gguf ({error_line(error)}): run pip install torch-assay[gguf]") from error
    return quants


_KINDS: dict[str, Callable[[str, int, int, ReadStored], bytes]] = {"swapped": _swapped, "gguf": _dequantised}
