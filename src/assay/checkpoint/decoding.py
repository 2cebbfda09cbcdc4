"""Stored bytes into plain numbers where each part stands for itself: swapped bytes and blocks of GGUF."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from assay.checkpoint.entries import EncodedBytes
from assay.checkpoint.formats.gguf_types import BLOCKS
from assay.errors import ReadError
from assay.messages import brief, error_line

PIECE = 1 << 18
"""Numbers dequantised at a time: some types take temporaries of many times their size."""
_FLOAT_BYTES = 4

Stored = Callable[[int, int], bytes]
"""Reads a range of the stored bytes."""


def decode(coded: EncodedBytes, offset: int, length: int, stored: Stored) -> bytes:
    """`length` plain bytes from `offset`; the kind is one whose parts can be read alone."""
    kind, _, detail = coded.kind.partition(":")
    return _KINDS[kind](detail, offset, length, stored)


def dequantisation_problem() -> str:
    """Why block-quantised tensors cannot be read here; empty where they can."""
    there = find_spec("gguf") is not None
    return "" if there else "quantised in blocks: pip install torch-assay[gguf] to have its statistics"


def _swapped(width: str, offset: int, length: int, stored: Stored) -> bytes:
    size = int(width)
    data = stored(offset, length)
    out = bytearray(length)
    for place in range(size):
        out[place::size] = data[size - 1 - place :: size]
    return bytes(out)


def _dequantised(name: str, offset: int, length: int, stored: Stored) -> bytes:
    """Whole blocks around the wanted range are unpacked, and the range is cut out of them."""
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
    """The function of the gguf package that dequantises this type."""
    import numpy as np

    quants = _package()
    kind = getattr(quants.GGMLQuantizationType, name.upper(), None)

    def unpack(data: bytes, count: int) -> bytes:
        try:
            with np.errstate(all="ignore"):
                found = quants.dequantize(np.frombuffer(data, dtype=np.uint8).reshape(1, -1), kind)
        except (NotImplementedError, AttributeError) as error:
            raise ReadError(f"the gguf package that is installed does not dequantise {brief(name)}") from error
        plain = np.ascontiguousarray(found, dtype="<f4").tobytes()
        if len(plain) != count * _FLOAT_BYTES:
            raise ReadError(f"the gguf package made {len(plain)} bytes of {count} numbers of {brief(name)}")
        return plain

    return unpack


def _package() -> Any:
    try:
        from gguf import quants
    # A package that is broken in any way is one that cannot be used.
    except Exception as error:
        raise ReadError(f"gguf cannot be imported ({error_line(error)}): install torch-assay[gguf]") from error
    return quants


_KINDS: dict[str, Callable[[str, int, int, Stored], bytes]] = {"swapped": _swapped, "gguf": _dequantised}
