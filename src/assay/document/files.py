"""Saving and loading documents: writes are atomic, `.gz` files are compressed, newer schemas are rejected."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path

import msgspec

from assay import atomic
from assay.document.document import SCHEMA_VERSION, Document
from assay.errors import ReadError, UsageError, VersionError
from assay.messages import one_line, plural, unreadable

SUFFIXES = (".assay.json", ".assay.json.gz")
MAX_RATIO = 100
"""Documents compress 10:1 to 40:1; 1000:1 is made to fill the memory."""
MAX_UNPACKED = 64 << 20
"""Bytes that any file may decompress to, whatever its ratio."""
_GZIP = 31
"""The format that zlib is to expect."""


class _Version(msgspec.Struct):
    assay_schema: int


def save(document: Document, path: str | Path, *, overwrite: bool = True) -> None:
    """Write a document to a file, completely or not at all.

    Args:
        document: The document to write.
        path: The file to write; it is compressed if its name ends in `.gz`.
        overwrite: Replace an existing file; if False, an existing file is an error.

    Raises:
        UsageError: The file exists and `overwrite` is False, or it holds a complete document and this one is partial.
        WriteError: The file cannot be written.
    """
    target = _path(path)
    if isinstance(document, Document) and document.stopped and target.is_file() and _is_complete(target):
        raise UsageError(f"{target} holds a complete document, and this one is partial: choose another name")
    atomic.write_bytes(target, encode(document, target.name), overwrite=overwrite)


def _is_complete(path: Path) -> bool:
    """Whether the file holds a document whose pass did not stop."""
    try:
        return not load(path).stopped
    except ReadError:
        return False


def encode(document: Document, name: str) -> bytes:
    """The content of a document's file called `name`; compressed if the name ends in `.gz`."""
    if not isinstance(document, Document):
        raise UsageError(
            f"cannot save {one_line(repr(document), 60)}: expected a document, such as assay.observe(model) returns"
        )
    data = msgspec.json.encode(document)
    # omit_defaults drops the version too, but a file must always contain it.
    data = b'{"assay_schema":%d%s' % (SCHEMA_VERSION, b"," + data[1:] if data != b"{}" else b"}")
    return gzip.compress(data, compresslevel=6, mtime=0) if name.endswith(".gz") else data


def load(path: str | Path) -> Document:
    """Read a document that `assay.save` wrote on this or another machine; torch is not needed.

    Args:
        path: The file to read, compressed or not.

    Returns:
        The document.

    Raises:
        ReadError: The file cannot be read, is damaged or is not an Assay document.
        VersionError: The file was written by a newer version of Assay.
    """
    source = _path(path)
    try:
        data = source.read_bytes()
    except OSError as error:
        raise ReadError(unreadable(source, error)) from error

    return decode(data, str(source))


def _path(path: object) -> Path:
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(text, str) or "\0" in text:
        raise UsageError(f"path must be a string or a Path without null characters, got {one_line(repr(path), 60)}")
    return Path(text)


def _decompressed(data: bytes, name: str) -> bytes:
    """The contents of a gzip stream; `ReadError` if there is far more than the text of a document compresses to."""
    stream, limit = zlib.decompressobj(_GZIP), max(MAX_UNPACKED, MAX_RATIO * len(data))
    text = stream.decompress(data, limit)
    if not stream.eof:
        if len(text) < limit:
            raise EOFError("it ends too early")
        raise ReadError(f"{name} is rejected: it decompresses to more than {limit:,} bytes")
    return text


def decode(data: bytes, name: str) -> Document:
    """The document in `data`, compressed or not; `name` is used in error messages only."""
    try:
        if data[:2] == b"\x1f\x8b":
            data = _decompressed(data, name)
    except (EOFError, zlib.error) as error:
        raise ReadError(f"cannot read {name}: the gzip stream is damaged ({error})") from error
    try:
        version = msgspec.json.decode(data, type=_Version).assay_schema
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if "truncated" in str(error):
            raise ReadError(f"{name} is truncated: save it again") from error
        raise ReadError(f"{name} is not an Assay document: {error}") from error
    if version > SCHEMA_VERSION:
        raise VersionError(
            f"{name} was written by a newer Assay (schema {version}, this one reads up to {SCHEMA_VERSION}): "
            "upgrade torch-assay"
        )
    try:
        document = msgspec.json.decode(data, type=Document)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ReadError(f"{name} is damaged: {error}") from error
    problem = _index_problem(document)
    if problem:
        raise ReadError(f"{name} is damaged: {problem}")
    return document


def _index_problem(document: Document) -> str:
    """The first index that is out of range, in words; empty if all are in range."""
    modules, calls, tensors = len(document.modules), len(document.calls), len(document.tensors)
    step = document.training
    checks = (
        ("a module's parent", (row.parent for row in document.modules), modules),
        ("a module's tensor", (index for row in document.modules for index in row.tensors.values()), tensors),
        ("a call's module", (row.module for row in document.calls), modules),
        ("a call's parent", (row.parent for row in document.calls), calls),
        ("an op's kind", (op.kind for op in document.ops), len(document.kinds)),
        ("an op's call", (max(op.call, 0) for op in document.ops), max(calls, 1)),
        ("a training op's kind", (op.kind for op in step.ops) if step else (), len(step.kinds) if step else 0),
        ("a storage", (index for op in document.ops for index in (*op.reads, *op.writes)), len(document.storages)),
    )
    for owner, indices, size in checks:
        bad = next((index for index in indices if index is not None and not 0 <= index < size), None)
        if bad is not None:
            return f"{owner} has index {bad}, which is out of range ({plural(size, 'row')})"
    return ""
