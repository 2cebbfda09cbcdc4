"""The journal of a run that may be interrupted: one line per finished tensor, kept until all are finished.

A line identifies its tensor by a digest of its file (size, modification time, first bytes), of its description and of
the settings. If any of these change, the line no longer matches and the tensor is analysed again. The same happens if
the line is damaged, which its checksum reveals. A run never fails because its journal cannot be written.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from assay.checkpoint.entries import Entry
from assay.checkpoint.files import Files
from assay.checkpoint.remote import is_url
from assay.document.weights import TensorStatistics
from assay.errors import ReadError, UsageError
from assay.messages import as_utf8, plural, unreadable
from assay.version import __version__

SUFFIX = ".journal.jsonl"
_BEGINS = b'{"key":"'
"""The start of every journal; a file that starts differently belongs to the user and is not overwritten."""
_HEADER = 1 << 16
"""Bytes at the start of a file that go into its digest."""


class _Line(Struct, frozen=True):
    key: str
    sum: str
    """A digest of the key and the bytes of `tensor`."""
    tensor: msgspec.Raw


class Journal:
    """A file of finished tensors: read at the start, then extended by one line per tensor, each in one write."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        read: bool = True,
        at_once: bool = True,
        warn: Callable[[str], object] = warnings.warn,
    ) -> None:
        self.path = Path(path)
        self.resumes = read
        """Whether lines of an earlier run are used; else the file is overwritten."""
        self.at_once = at_once
        """Whether lines are written as tensors finish; else only when the run is interrupted."""
        self._warn = warn
        self._damaged = 0
        """Lines of an earlier run that cannot be used."""
        self._failed = False
        """Whether it could not be written, so that the run goes on without it."""
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
        finished = {index: lines[key] for index, key in enumerate(self._keys) if key in lines}
        again = min(self._damaged, len(entries) - len(finished))
        if again:
            lost = plural(self._damaged, "damaged line")
            self._warn(f"{lost} ignored in {self.path}: {plural(again, 'tensor')} will be analysed again")
        return finished

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
            handle, self._handle = self._handle, None
            with suppress(OSError):  # a full disk or a lost network drive
                os.close(handle)

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
                if not _BEGINS.startswith(file.read(len(_BEGINS))):
                    raise UsageError(f"{self.path} is not a journal of finished tensors: choose another path")
                file.seek(0)
                return dict(filter(None, map(self._read, file)))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ReadError(unreadable(self.path, error)) from error

    def _read(self, text: bytes) -> tuple[str, TensorStatistics] | None:
        """The key and the tensor of a line; None if it is empty, or damaged, as by a process that was killed."""
        if not text.strip():
            return None
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            line = _LINE.decode(text)
            if line.sum == _digest(line.key.encode() + line.tensor):
                return line.key, _TENSOR.decode(line.tensor)
        self._damaged += 1
        return None

    def _write(self, index: int, tensor: TensorStatistics) -> None:
        if self._failed:
            return
        key, row = self._keys[index], msgspec.json.encode(tensor)
        rest = msgspec.json.encode(_Line(key, _digest(key.encode() + row), msgspec.Raw(row))) + b"\n"
        try:
            if self._handle is None:
                self._handle = self._opened()
                self._opened_here = True
            while rest:  # an almost full disk takes a part of the line, and then fails
                rest = rest[os.write(self._handle, rest) :]
        except OSError as error:
            self._failed = True
            self._drop()
            self.close()
            self._warn(f"cannot write {self.path} ({error.strerror or error}): the run goes on without a journal")

    def _drop(self) -> None:
        """Remove a line of which only a part could be written, and the file if it has no other."""
        with suppress(OSError):
            if self._handle is not None and (size := os.fstat(self._handle).st_size):
                with self.path.open("rb") as file:
                    whole = file.read(size).rfind(b"\n") + 1
                os.ftruncate(self._handle, whole)
            if not self.path.stat().st_size:
                self.path.unlink()

    def _opened(self) -> int:
        truncate = 0 if self.resumes else os.O_TRUNC
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | truncate, 0o666)
        size = os.fstat(handle).st_size
        if size and os.pread(handle, 1, size - 1) != b"\n":
            os.write(handle, b"\n")
        return handle


_LINE = msgspec.json.Decoder(_Line)
_TENSOR = msgspec.json.Decoder(TensorStatistics)


def _key(entry: Entry, stamps: dict[str, str], settings: Sequence[object]) -> str:
    span = entry.span
    location = (
        (as_utf8(os.path.basename(span.file)), stamps[span.file], span.offset, span.length)
        if span is not None
        else ()
    )
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
