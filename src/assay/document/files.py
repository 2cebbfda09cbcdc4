"""Saving and loading documents: atomic, gzip by name, a newer schema refused in one line."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import msgspec

from assay import atomic
from assay.document.document import SCHEMA_VERSION, Document
from assay.errors import ReadError, VersionError

SUFFIXES = (".assay.json", ".assay.json.gz")


class _Version(msgspec.Struct):
    assay_schema: int


def save(document: Document, path: str | Path, *, overwrite: bool = True) -> None:
    """Write a document to a file, atomically.

    Args:
        document: What to write.
        path: Where; compressed if the name ends in `.gz`.
        overwrite: Replace a file that exists; otherwise that is an error.
    """
    target = Path(path)
    data = msgspec.json.encode(document)
    # omit_defaults drops the version as well, and a file must always say what it is.
    data = b'{"assay_schema":%d%s' % (SCHEMA_VERSION, b"," + data[1:] if data != b"{}" else b"}")
    if target.suffix == ".gz":
        data = gzip.compress(data, compresslevel=6, mtime=0)
    atomic.write_bytes(target, data, overwrite=overwrite)


def load(path: str | Path) -> Document:
    """Read a document that `assay.save` wrote, here or on another machine, without torch.

    Args:
        path: The file, compressed or not.
    """
    source = Path(path)
    try:
        data = source.read_bytes()
    except OSError as error:
        raise ReadError(f"cannot read {source}: {error.strerror or error}") from error
    return decode(data, str(source))


def decode(data: bytes, name: str) -> Document:
    """The document in `data`, compressed or not; `name` is used in error messages only."""
    try:
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise ReadError(f"cannot read {name}: the gzip stream is damaged ({error})") from error
    try:
        version = msgspec.json.decode(data, type=_Version).assay_schema
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
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
    lost = _lost_index(document)
    if lost:
        raise ReadError(f"{name} is damaged: {lost}")
    return document


def _lost_index(document: Document) -> str:
    """What points beyond the rows it points into; empty where everything is there."""
    modules, calls, tensors = len(document.modules), len(document.calls), len(document.tensors)
    step = document.training
    checks = (
        ("a module's parent", (row.parent for row in document.modules), modules),
        ("a module's tensor", (at for row in document.modules for at in row.tensors.values()), tensors),
        ("a call's module", (row.module for row in document.calls), modules),
        ("a call's parent", (row.parent for row in document.calls), calls),
        ("an operation's kind", (op.kind for op in document.ops), len(document.kinds)),
        ("an operation's call", (max(op.call, 0) for op in document.ops), max(calls, 1)),
        ("a training operation's kind", (op.kind for op in step.ops) if step else (), len(step.kinds) if step else 0),
        ("a storage", (at for op in document.ops for at in (*op.reads, *op.writes)), len(document.storages)),
    )
    for what, found, size in checks:
        bad = next((at for at in found if at is not None and not 0 <= at < size), None)
        if bad is not None:
            return f"{what} points at row {bad} of {size}"
    return ""
