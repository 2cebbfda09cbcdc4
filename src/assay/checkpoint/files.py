"""Reading ranges of bytes: local files by pread; folders, and the files that a checkpoint names beside itself."""

from __future__ import annotations

import os
import re
import stat
import threading
import weakref
from collections.abc import Sequence
from typing import Protocol

from assay.checkpoint.entries import EncodedBytes
from assay.checkpoint.remote import RemoteFile, is_url, reason, remote_names
from assay.errors import ReadError
from assay.messages import brief

METADATA = ".metadata"
"""The file that makes a folder a distributed checkpoint."""


class File(Protocol):
    """A file whose bytes can be read anywhere."""

    path: str

    @property
    def size(self) -> int: ...
    @property
    def coded(self) -> EncodedBytes | None: ...
    def read(self, offset: int, length: int) -> bytes: ...
    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]: ...
    def close(self) -> None: ...


class Region:
    """A part of a file that is read as if it were one; leaving its `with` closes the file unless it has an owner."""

    __slots__ = ("base", "file", "owner", "path", "size")

    def __init__(self, file: File, base: int = 0, size: int | None = None, owner: Files | None = None) -> None:
        self.file = file
        self.path = file.path
        self.base = base
        self.size = file.size - base if size is None else size
        self.owner = owner
        """Keeps the file open for others too, as long as any of them needs it."""

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`."""
        return self.file.read(self._place(offset, length), length)

    def read_many(self, offsets: Sequence[int], length: int) -> list[bytes]:
        """`length` bytes from each of `offsets`."""
        return self.file.read_many([(self._place(offset, length), length) for offset in offsets])

    def part(self, offset: int, size: int) -> Region:
        """A smaller region of the same file."""
        return Region(self.file, self._place(offset, size), size, self.owner)

    def _place(self, offset: int, length: int) -> int:
        """Where in the file so many bytes at `offset` of the region lie; refused where they are not all in it."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise ReadError(f"{brief(self.path)} is cut short: {length} bytes at {offset} lie beyond its end")
        return self.base + offset

    def __enter__(self) -> Region:
        return self

    def __exit__(self, *_: object) -> None:
        if self.owner is None:
            self.file.close()


class Files:
    """Files opened once and kept open while this lives; safe in several threads. Copies in other processes reopen."""

    MOST_OPEN = 64
    """Files beyond this many are opened for each use: a process may hold only so many."""

    def __init__(self) -> None:
        self._open: dict[str, File] = {}
        self._lock = threading.Lock()
        weakref.finalize(self, _close_all, self._open)

    def region(self, path: str) -> Region:
        """The whole of a file, for a `with`."""
        with self._lock:
            file = self._open.get(path)
            shared = file is not None or len(self._open) < self.MOST_OPEN
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

    coded = None

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            # Without O_NONBLOCK, opening a named pipe would wait for a writer.
            self._handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        except (OSError, ValueError) as error:
            raise ReadError(f"cannot read {brief(path)}: {reason(error)}") from error
        status = os.fstat(self._handle)
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise ReadError(f"cannot read {brief(path)}: it is no regular file")
        self.size, self.changed_ns = status.st_size, status.st_mtime_ns

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`, or a `ReadError`."""
        try:
            data = os.pread(self._handle, length, offset)
            while 0 < len(data) < length:
                more = os.pread(self._handle, length - len(data), offset + len(data))
                if not more:
                    break
                data += more
        except (OSError, OverflowError) as error:
            raise ReadError(f"cannot read {brief(self.path)}: {reason(error)}") from error
        if len(data) != length:
            raise ReadError(f"{brief(self.path)} is cut short: it ends before byte {offset + length}")
        return data

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each (offset, length)."""
        return [self.read(offset, length) for offset, length in ranges]

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._handle)


class HeldFile:
    """Bytes that were unpacked into memory, under the name of the file they came from."""

    def __init__(self, path: str, data: bytes, coded: EncodedBytes | None = None) -> None:
        self.path = path
        self.size = len(data)
        self.coded = coded
        """How they can be had again."""
        self._data = data

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`."""
        return self._data[offset : offset + length]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each (offset, length)."""
        return [self.read(offset, length) for offset, length in ranges]

    def close(self) -> None:
        """Nothing is held open."""


def folder_names(path: str) -> list[str] | None:
    """The names of the files in a folder, sorted; None where `path` is no folder."""
    if is_url(path):
        return remote_names(path)
    try:
        return sorted(item.name for item in os.scandir(path) if _is_file(item))
    except NotADirectoryError:
        return None
    except (OSError, ValueError) as error:
        raise ReadError(f"cannot read {brief(path)}: {reason(error)}") from error


def _is_file(item: os.DirEntry[str]) -> bool:
    """Whether it is a file, or a link that leads nowhere: a shard that is missing must not go unnoticed."""
    try:
        return item.is_file() or (item.is_symlink() and not os.path.exists(item))
    except OSError:
        return item.is_symlink()


def inside(folder: str, name: str) -> str:
    """The path of the file that a checkpoint in `folder` calls `name`; refused where it would lie elsewhere."""
    parts = re.split(r"[/\\]", name)
    odd = is_url(name) or os.path.isabs(name) or ".." in parts or "" in parts or ":" in name or "\0" in name
    if odd or (is_url(folder) and re.search(r"[?#%]", name)):
        raise ReadError(f"{brief(folder)} refers to {brief(name)}, which is not a file beside it: refused")
    if is_url(folder):
        return f"{folder.rstrip('/')}/{name}"
    path = os.path.join(folder, name)
    real = os.path.realpath(path)
    if not any(os.path.commonpath([root, real]) == root for root in _roots(folder)):
        raise ReadError(f"{brief(path)} is a link to a file outside its folder: refused")
    return path


def _roots(folder: str) -> list[str]:
    """Where the files of `folder` may really lie: in it, or in the store of a download cache's snapshot."""
    real = os.path.realpath(folder)
    above, _ = os.path.split(real)
    cached = os.path.basename(above) == "snapshots"
    return [real, os.path.join(os.path.dirname(above), "blobs")] if cached else [real]
