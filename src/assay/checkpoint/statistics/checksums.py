"""CRC-32 of records that are read in pieces, and of records of which no tensor is the whole."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence

from assay.checkpoint.entries import Checksum, Entry
from assay.checkpoint.remote import is_url
from assay.checkpoint.statistics.chunks import CHUNK_BYTES, Chunk
from assay.checkpoint.statistics.gathering import Read
from assay.errors import ReadError
from assay.messages import one_line

_POLYNOMIAL = 0xEDB88320
Piece = tuple[int, int, int]
"""Position, bytes and CRC-32 of a piece."""


def own_checksum(entry: Entry) -> int | None:
    """The checksum of exactly the bytes of a tensor; None if there is none."""
    whole = entry.checksum is not None and entry.strides is None and entry.span == entry.checksum.span
    return entry.checksum.crc if whole and entry.checksum is not None else None


def check(file: str, expected: int, pieces: Iterable[Piece]) -> None:
    """Raise `ReadError` unless the pieces, in the order of their positions, have the expected checksum."""
    crc = 0
    for _, length, piece in sorted(pieces):
        crc = _joined(crc, piece, length)
    if crc != expected:
        raise ReadError(f"{one_line(file)} is damaged: the CRC-32 of this record is {crc:08x}, not {expected:08x}")


def damaged_records(entries: Sequence[Entry], read: Read) -> dict[Checksum, str]:
    """Why each damaged record is, of local ones that no tensor covers as a whole."""
    every = {entry.checksum for entry in entries if entry.checksum is not None}
    whole = {entry.checksum for entry in entries if own_checksum(entry) is not None}
    damaged: dict[Checksum, str] = {}
    for record in every - whole:
        if not is_url(record.span.file):
            try:
                check(record.span.file, record.crc, _pieces(record, read))
            except ReadError as error:
                damaged[record] = str(error)
    return damaged


def _pieces(record: Checksum, read: Read) -> Iterable[Piece]:
    span = record.span
    for start in range(0, span.length, CHUNK_BYTES):
        length = min(CHUNK_BYTES, span.length - start)
        yield start, length, zlib.crc32(read(Chunk(0, span.file, span.offset + start, 1, length, "uint8", 0)))


def _joined(first: int, second: int, length: int) -> int:
    """The checksum of two parts from theirs and the length of the second."""
    return _product(_power(8 * length), first) ^ second


def _power(exponent: int) -> int:
    """x to the exponent, modulo the polynomial; the highest bit of a polynomial is the coefficient of 1."""
    result, base = 1 << 31, 1 << 30
    while exponent:
        if exponent & 1:
            result = _product(base, result)
        base, exponent = _product(base, base), exponent >> 1
    return result


def _product(a: int, b: int) -> int:
    """The product of two polynomials modulo the polynomial."""
    product = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return product
