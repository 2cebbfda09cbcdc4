"""Reads byte ranges of local files, lists directories, and resolves the file names that a checkpoint refers to."""

from __future__ import annotations

import os
import re
import stat
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from assay.checkpoint.entries import EncodedBytes
from assay.checkpoint.remote import RemoteFile, is_url, reason, remote_names
from assay.errors import ReadError
from assay.messages import one_line, unreadable

METADATA = ".metadata"
"""A directory that contains this file is a distributed checkpoint."""


class File(Protocol):
    """A file that supports random access."""

    path: str

    @property
    def size(self) -> int: ...
    @property
    def encoded(self) -> EncodedBytes | None: ...
    def read(self, offset: int, length: int) -> bytes: ...
    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]: ...
    def close(self) -> None: ...


class Region:
    """Part of a file, read like a file of its own. Leaving its `with` block closes the file if `owner` is None."""

    __slots__ = ("base", "file", "owner", "path", "size")

    def __init__(self, file: File, base: int = 0, size: int | None = None, owner: Files | None = None) -> None:
        self.file = file
        self.path = file.path
        self.base = base
        self.size = file.size - base if size is None else size
        self.owner = owner
        """The cache that keeps the file open, if any."""

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`."""
        return self.file.read(self._file_offset(offset, length), length)

    def read_into(self, offset: int, view: memoryview) -> None:
        """Fill `view` with the bytes from `offset`; a local file is not copied twice."""
        position = self._file_offset(offset, len(view))
        if isinstance(self.file, LocalFile):
            self.file.read_into(position, view)
        else:
            view[:] = self.file.read(position, len(view))

    def read_many(self, offsets: Sequence[int], length: int) -> list[bytes]:
        """`length` bytes at each of `offsets`."""
        return self.file.read_many([(self._file_offset(offset, length), length) for offset in offsets])

    def part(self, offset: int, size: int) -> Region:
        """A smaller region of the same file."""
        return Region(self.file, self._file_offset(offset, size), size, self.owner)

    def _file_offset(self, offset: int, length: int) -> int:
        """The file offset of `length` bytes at `offset` of the region; `ReadError` if they are not all inside it."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise truncated(self.path, f"{length} bytes at offset {offset} are past its end")
        return self.base + offset

    def __enter__(self) -> Region:
        return self

    def __exit__(self, *_: object) -> None:
        if self.owner is None:
            self.file.close()


class Files:
    """A cache of open files, closed when it is deleted. Thread-safe; a pickled copy starts empty."""

    MAX_OPEN = 64
    """Once this many files are open, further ones are reopened for each use: processes have a limit."""

    def __init__(self) -> None:
        self._open: dict[str, File] = {}
        self._lock = threading.Lock()
        weakref.finalize(self, _close_all, self._open)

    def region(self, path: str) -> Region:
        """The whole file at `path`, to be used in a `with` statement."""
        with self._lock:
            file = self._open.get(path)
            shared = file is not None or len(self._open) < self.MAX_OPEN
            if file is None:
                file = RemoteFile(path) if is_url(path) else LocalFile(path)
                if shared:
                    self._open[path] = file
        return Region(file, owner=self if shared else None)

    def __reduce__(self) -> tuple[type[Files], tuple[()]]:
        return Files, ()


def _close_all(files: dict[str, File]) -> None:
    for file in files.values():
        file.close()
    files.clear()


class LocalFile:
    """A regular file on this machine."""

    encoded = None

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            # Without O_NONBLOCK, opening a named pipe would wait for a writer.
            self._handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        except (OSError, ValueError) as error:
            raise ReadError(unreadable(path, error, reason(error))) from error
        status = os.fstat(self._handle)
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise ReadError(f"cannot read {one_line(path)}: not a regular file")
        self.size, self.changed_ns = status.st_size, status.st_mtime_ns

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`, or a `ReadError`."""
        data: bytes = self._calling(os.pread, length, offset)
        if len(data) == length:
            return data
        # Interrupted, or past the end: rare, so the bytes may be copied.
        whole = bytearray(length)
        self.read_into(offset, memoryview(whole))
        return bytes(whole)

    def read_into(self, offset: int, view: memoryview) -> None:
        """Fill `view` with the bytes from `offset`, or raise a `ReadError`."""
        done = 0
        while done < len(view):
            more = self._calling(os.preadv, [view[done:]], offset + done)
            if not more:
                raise truncated(self.path, f"it ends before byte {offset + len(view)}")
            done += more

    def _calling(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(self._handle, *arguments)
        except (OSError, OverflowError) as error:
            raise ReadError(f"cannot read {one_line(self.path)}: {reason(error)}") from error

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each (offset, length)."""
        return [self.read(offset, length) for offset, length in ranges]

    def close(self) -> None:
        """Close the file descriptor."""
        os.close(self._handle)


class BytesFile:
    """Bytes in memory, with the path of the file they were unpacked from."""

    def __init__(self, path: str, data: bytes, encoded: EncodedBytes | None = None) -> None:
        self.path = path
        self.size = len(data)
        self.encoded = encoded
        """How to decode them from the file again."""
        self._data = data

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`."""
        return self._data[offset : offset + length]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each (offset, length)."""
        return [self.read(offset, length) for offset, length in ranges]

    def close(self) -> None:
        """Do nothing: there is no open file."""


def truncated(path: str, why: str) -> ReadError:
    """The error for a file that ends too early."""
    return ReadError(f"{one_line(path)} is truncated: {why}; download or copy it again")


def folder_names(path: str) -> list[str] | None:
    """The sorted names of the files in the directory `path`; None if `path` is not a directory."""
    if is_url(path):
        return remote_names(path)
    try:
        return sorted(item.name for item in os.scandir(path) if _is_file(item))
    except NotADirectoryError:
        return None
    except (OSError, ValueError) as error:
        raise ReadError(unreadable(path, error, reason(error))) from error


def _is_file(item: os.DirEntry[str]) -> bool:
    """Whether it is a file or a broken link: a missing shard must be reported, not skipped."""
    try:
        return item.is_file() or (item.is_symlink() and not os.path.exists(item))
    except OSError:
        return item.is_symlink()


def inside(folder: str, name: str) -> str:
    """The path of file `name` in `folder`; `ReadError` if the name or a link leads out of the directory."""
    parts = re.split(r"[/\\]", name)
    unsafe = is_url(name) or os.path.isabs(name) or ".." in parts or "" in parts or ":" in name or "\0" in name
    if unsafe or (is_url(folder) and re.search(r"[?#%]", name)):
        raise ReadError(f"{one_line(folder)} refers to {one_line(name)}: only files in the same directory are read")
    if is_url(folder):
        return f"{folder.rstrip('/')}/{name}"
    path = os.path.join(folder, name)
    if not os.path.lexists(path):  # reported as missing; resolving 200,000 paths would take seconds
        return path
    real = os.path.realpath(path)
    if not any(os.path.commonpath([root, real]) == root for root in _roots(folder)):
        raise ReadError(
            f"{one_line(path)} is a link to a file outside its directory: only files in the directory are read"
        )
    return path


def _roots(folder: str) -> list[str]:
    """The directories that may hold files of `folder`: itself and, in a Hugging Face snapshot, the blob store."""
    real = os.path.realpath(folder)
    above, _ = os.path.split(real)
    cached = os.path.basename(above) == "snapshots"
    return [real, os.path.join(os.path.dirname(above), "blobs")] if cached else [real]
