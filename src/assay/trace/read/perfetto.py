"""Rewrites a possibly damaged trace as valid JSON that trace viewers can open; sound events stay unchanged.

Assay's encoded labels are replaced by the module paths they encode.
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
    """The number of events kept, repaired and skipped."""

    kept: int = 0
    repaired: int = 0
    skipped: int = 0


def write_repaired(
    source: str | Path, target: Path, *, overwrite: bool = False, progress: Progress | None = None
) -> RepairCounts:
    """Write the trace at `source` to `target` as valid JSON, compressed if the name ends in `.gz`."""
    splitter, counts = Splitter(), RepairCounts()
    with _packed(target, overwrite) as file:
        separator = b'{"traceEvents":[\n'
        for text in _texts(source, splitter, progress):
            if events := _valid(text, counts, splitter):
                file.write(separator)
                file.write(_LABEL.sub(_shown, events))
                separator = b",\n"
        file.write(separator if separator != b",\n" else b"")
        file.write(b"\n]" + _root(splitter) + b"}\n")
    counts.skipped = sum(splitter.skipped.values())
    return counts


def _texts(source: str | Path, splitter: Splitter, progress: Progress | None) -> Iterator[bytes]:
    for piece in Pieces(source, progress):
        yield from splitter.feed(piece, False)
    yield from splitter.feed(b"", True)


def _valid(text: bytes, counts: RepairCounts, splitter: Splitter) -> bytes:
    """The events in `text`, unchanged if they are valid JSON, else repaired; empty if they cannot be repaired."""
    count = _count(text)
    if not count and splitter.reread(text):
        return b""
    events = text if count or runs_on(text) else repaired(text)
    count = count or _count(events)
    if not count:
        splitter.damaged(text)
        return b""
    counts.kept += count
    counts.repaired += events != text
    return events


def _count(text: bytes) -> int:
    """The number of comma-separated JSON values in `text`; 0 if it is not valid JSON."""
    try:
        text.decode()
        return len(_LIST.decode(b"[" + text + b"]"))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return 0


def _shown(match: re.Match[bytes]) -> bytes:
    return match[1] + msgspec.json.encode(shown_name(match[2].decode()).encode("utf-8", "replace").decode())


def _root(splitter: Splitter) -> bytes:
    """The file's other top-level keys, without those that cannot be repaired."""
    pairs = []
    for key, value in splitter.root:
        pair = repaired(b'"' + key + b'":' + value + b"}")[:-1]
        if key != METADATA_KEY.encode() and _count(b"{" + pair + b"}"):
            pairs.append(b",\n" + pair)
    return b"".join(pairs)


@contextlib.contextmanager
def _packed(target: Path, overwrite: bool) -> Iterator[BinaryIO]:
    """A file that replaces `target` if the context ends without an error; compressed if the name ends in `.gz`."""
    with atomic.open_atomic(target, overwrite=overwrite) as file:
        if target.suffix != ".gz":
            yield file
            return
        with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6, mtime=0, filename="") as packed:
            yield cast(BinaryIO, packed)
