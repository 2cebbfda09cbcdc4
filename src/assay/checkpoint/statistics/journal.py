"""The journal of a run that may be interrupted: one line per finished tensor, kept until all are finished.

A line identifies its tensor by a digest of its file (size, modification time, first bytes), of its description and of
the settings. If any of these change, the line no longer matches and the tensor is analysed again.
"""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from assay.checkpoint.entries import Entry
from assay.checkpoint.files import Files
from assay.checkpoint.remote import is_url
from assay.document.weights import TensorStatistics
from assay.errors import ReadError, UsageError, WriteError
from assay.messages import unreadable
from assay.version import __version__

SUFFIX = ".journal.jsonl"
_BEGINS = b'{"key":"'
"""The start of every journal; a file that starts differently belongs to the user and is not overwritten."""
_HEADER = 1 << 16
"""Bytes at the start of a file that go into its digest."""


class _Line(Struct, frozen=True):
    key: str
    tensor: TensorStatistics


class Journal:
    """A file of finished tensors: read at the start, then extended by one line per tensor, each in one write."""

    def __init__(self, path: str | os.PathLike[str], *, read: bool = True, at_once: bool = True) -> None:
        self.path = Path(path)
        self.resumes = read
        """Whether lines of an earlier run are used; else the file is overwritten."""
        self.at_once = at_once
        """Whether lines are written as tensors finish; else only when the run is interrupted."""
        self._keys: list[str] = []
        self._unwritten: list[tuple[int, TensorStatistics]] = []
        self._handle: int | None = None
        self._opened_here = False

    def begin(
        self, entries: Sequence[Entry], settings: Sequence[object], files: Files
    ) -> dict[int, TensorStatistics]:
        """The statistics of the entries that an earlier run finished, by their index in `entries`."""
        stamps = {file: _stamp(file, files) for file in {each.span.file for each in entries if each.span is not None}}
        self._keys = [_key(entry, stamps, settings) for entry in entries]
        lines = self._lines() if self.resumes else {}
        return {index: lines[key] for index, key in enumerate(self._keys) if key in lines}

    def add(self, index: int, tensor: TensorStatistics) -> None:
        """Record that the entry at `index` is finished."""
        if self.at_once:
            self._write(index, tensor)
        else:
            self._unwritten.append((index, tensor))

    def interrupt(self) -> None:
        """Write the lines that have not been written yet and close the file; called if the run is interrupted."""
        for index, tensor in self._unwritten:
            self._write(index, tensor)
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def remove(self) -> None:
        """Delete the file, if it exists: the run is complete."""
        self.close()
        self.path.unlink(missing_ok=True)

    def discard(self) -> None:
        """Delete the file if this run created it and does not resume another: the run failed."""
        if self._opened_here and not self.resumes:
            self.remove()

    def _lines(self) -> dict[str, TensorStatistics]:
        try:
            with self.path.open("rb") as file:
                begins = file.read(len(_BEGINS))
                if not _BEGINS.startswith(begins):
                    raise UsageError(f"{self.path} is not a journal of finished tensors: choose another path")
                lines = (begins + file.read()).split(b"\n")
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ReadError(unreadable(self.path, error)) from error
        decoder = msgspec.json.Decoder(_Line)
        finished: dict[str, TensorStatistics] = {}
        for line in filter(None, lines):
            # A killed process may leave an incomplete line; its tensor is analysed again.
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                read = decoder.decode(line)
                finished[read.key] = read.tensor
        return finished

    def _write(self, index: int, tensor: TensorStatistics) -> None:
        line = msgspec.json.encode(_Line(self._keys[index], tensor)) + b"\n"
        try:
            if self._handle is None:
                self._handle = self._opened()
                self._opened_here = True
            os.write(self._handle, line)
        except OSError as error:
            raise WriteError(f"cannot write {self.path}: {error.strerror or error}") from error

    def _opened(self) -> int:
        truncate = 0 if self.resumes else os.O_TRUNC
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | truncate, 0o666)
        size = os.fstat(handle).st_size
        if size and os.pread(handle, 1, size - 1) != b"\n":
            os.write(handle, b"\n")
        return handle


def _key(entry: Entry, stamps: dict[str, str], settings: Sequence[object]) -> str:
    span = entry.span
    location = (os.path.basename(span.file), stamps[span.file], span.offset, span.length) if span is not None else ()
    description = (entry.names, entry.dtype, entry.shape, entry.strides, entry.storage_offset, entry.role)
    return _digest(msgspec.json.encode((__version__, location, description, settings)))


def _stamp(file: str, files: Files) -> str:
    """A text that changes whenever the file changes."""
    with files.region(file) as region:
        head = _digest(region.read(0, min(_HEADER, region.size)))
        size, changed = region.size, getattr(region.file, "changed_ns", None)
    if is_url(file):
        system, key = importlib.import_module("fsspec.core").url_to_fs(file)
        return f"{size} {system.ukey(key)} {head}"
    return f"{size} {changed} {head}"


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
