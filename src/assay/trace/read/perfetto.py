"""A trace written again as valid JSON that viewers open, however damaged it was; nothing else about it changes.

Labels of ours become the module paths they stand for.
"""

from __future__ import annotations

import contextlib
import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from assay import atomic
from assay.document.trace_labels import METADATA_KEY, PREFIX
from assay.trace.read.opening import Pieces, Progress
from assay.trace.read.repairing import repaired, runs_on
from assay.trace.read.splitting import Splitter
from assay.trace.read.stacks import shown_name

_LABEL = re.compile(rb'("name"\s*:\s*)"(' + PREFIX.encode() + rb'[A-Za-z0-9._%-]*)"')
_LIST = msgspec.json.Decoder(list[msgspec.Raw])


class RepairCounts(msgspec.Struct):
    """What became of the events."""

    kept: int = 0
    repaired: int = 0
    skipped: int = 0


def write_repaired(
    source: str | Path, target: Path, *, overwrite: bool = False, progress: Progress | None = None
) -> RepairCounts:
    """Write the trace at `source` to `target`, compressed where its name ends in `.gz`."""
    splitter, told = Splitter(), RepairCounts()
    with _packed(target, overwrite) as file:
        separator = b'{"traceEvents":[\n'
        for text in _texts(source, splitter, progress):
            if events := _valid(text, told, splitter):
                file.write(separator)
                file.write(_LABEL.sub(_shown, events))
                separator = b",\n"
        file.write(separator if separator != b",\n" else b"")
        file.write(b"\n]" + _root(splitter) + b"}\n")
    told.skipped = sum(splitter.skipped.values())
    return told


def _texts(source: str | Path, splitter: Splitter, progress: Progress | None) -> Iterator[bytes]:
    for piece in Pieces(source, progress):
        yield from splitter.feed(piece, False)
    yield from splitter.feed(b"", True)


def _valid(text: bytes, told: RepairCounts, splitter: Splitter) -> bytes:
    """The events of a text as they stand where that is JSON, else mended; nothing where that cannot be."""
    count = _count(text)
    if not count and splitter.reread(text):
        return b""
    mended = text if count or runs_on(text) else repaired(text)
    count = count or _count(mended)
    if not count:
        splitter.damaged(text)
        return b""
    told.kept += count
    told.repaired += mended != text
    return mended


def _count(text: bytes) -> int:
    """How many values of a JSON list `text` is; 0 where it is not."""
    try:
        text.decode()
        return len(_LIST.decode(b"[" + text + b"]"))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return 0


def _shown(found: re.Match[bytes]) -> bytes:
    return found[1] + msgspec.json.encode(shown_name(found[2].decode()).encode("utf-8", "replace").decode())


def _root(splitter: Splitter) -> bytes:
    """The file's other keys, those that are valid or can be mended."""
    found = []
    for key, value in splitter.root:
        pair = repaired(b'"' + key + b'":' + value + b"}")[:-1]
        if key != METADATA_KEY.encode() and _count(b"{" + pair + b"}"):
            found.append(b",\n" + pair)
    return b"".join(found)


@contextlib.contextmanager
def _packed(target: Path, overwrite: bool) -> Iterator[BinaryIO]:
    """A file that takes the place of `target` when all went well, compressed where its name ends in `.gz`."""
    with atomic.replacing(target, overwrite=overwrite) as file:
        if target.suffix != ".gz":
            yield file
            return
        with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6, mtime=0, filename="") as packed:
            yield cast(BinaryIO, packed)
