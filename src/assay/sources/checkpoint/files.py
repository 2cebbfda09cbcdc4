"""Reading ranges of bytes: local files by pread, URLs through fsspec where it is installed."""

from __future__ import annotations

import importlib
import os
import re
import stat
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from types import TracebackType
from typing import Any, Protocol

from assay.errors import ReadError
from assay.sources.wording import brief, said

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+://")
_AT_ONCE = 1000
"""Ranges asked for in one go from a remote file; each is its own request, run side by side."""


class File(Protocol):
    """A file whose bytes can be read anywhere."""

    path: str

    @property
    def size(self) -> int: ...
    def read(self, offset: int, length: int) -> bytes: ...
    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]: ...
    def close(self) -> None: ...


class Region:
    """A part of a file that is read as if it were one; closing it closes the file."""

    __slots__ = ("base", "file", "path", "size")

    def __init__(self, file: File, base: int = 0, size: int | None = None) -> None:
        self.file = file
        self.path = file.path
        self.base = base
        self.size = file.size - base if size is None else size

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise ReadError(f"{brief(self.path)} is cut short: {length} bytes at {offset} lie beyond its end")
        return self.file.read(self.base + offset, length)

    def read_many(self, offsets: Sequence[int], length: int) -> list[bytes]:
        """`length` bytes from each of `offsets`."""
        for offset in offsets:
            if offset < 0 or offset + length > self.size:
                raise ReadError(f"{brief(self.path)} is cut short: {length} bytes at {offset} lie beyond its end")
        return self.file.read_many([(self.base + offset, length) for offset in offsets])

    def part(self, offset: int, size: int) -> Region:
        """A smaller region of the same file."""
        if offset < 0 or size < 0 or offset + size > self.size:
            raise ReadError(f"{brief(self.path)} is cut short: {size} bytes at {offset} lie beyond its end")
        return Region(self.file, self.base + offset, size)

    def __enter__(self) -> Region:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()


def is_url(path: str) -> bool:
    """Whether `path` names a remote file: `is_url("s3://bucket/key")`."""
    return _URL.match(path) is not None


def open_file(path: str) -> File:
    """A file to be closed by the caller."""
    return RemoteFile(path) if is_url(path) else LocalFile(path)


def open_region(path: str) -> Region:
    """The whole of a file; closed at the end of a `with`."""
    file = open_file(path)
    try:
        return Region(file)
    except ReadError:
        file.close()
        raise


class LocalFile:
    """A regular file on this machine."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            # Without O_NONBLOCK, opening a named pipe would wait for a writer.
            self._handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        except (OSError, ValueError) as error:
            raise ReadError(f"cannot read {brief(path)}: {_reason(error)}") from error
        status = os.fstat(self._handle)
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise ReadError(f"cannot read {brief(path)}: it is no regular file")
        self.size = status.st_size

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
            raise ReadError(f"cannot read {brief(self.path)}: {_reason(error)}") from error
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

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.size = len(data)
        self._data = data

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`."""
        return self._data[offset : offset + length]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each (offset, length)."""
        return [self.read(offset, length) for offset, length in ranges]

    def close(self) -> None:
        """Nothing is held open."""


class RemoteFile:
    """A file behind a URL, read by ranges."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._system, self._key = _system(path)

    @cached_property
    def size(self) -> int:
        """Bytes of the whole file; asked for once, and not at all where only known ranges are read."""
        return int(_asked(self.path, lambda: self._system.info(self._key)["size"]))

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`, or a `ReadError`."""
        if not length:
            return b""
        data = _asked(self.path, lambda: self._system.cat_file(self._key, start=offset, end=offset + length))
        return self._whole(data, offset, length)

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each (offset, length), asked for side by side where the file system can."""
        found: list[bytes] = []
        for first in range(0, len(ranges), _AT_ONCE):
            some = ranges[first : first + _AT_ONCE]
            starts = [offset for offset, _ in some]
            ends = [offset + length for offset, length in some]
            pieces = _asked(self.path, partial(self._system.cat_ranges, [self._key] * len(some), starts, ends))
            found += [self._whole(piece, *place) for piece, place in zip(pieces, some, strict=True)]
        return found

    def close(self) -> None:
        """Nothing is held open."""

    def _whole(self, data: Any, offset: int, length: int) -> bytes:
        if not isinstance(data, bytes) or len(data) != length:
            raise ReadError(f"{brief(self.path)}: {length} bytes at {offset} were asked for and did not come")
        return data


def folder_names(path: str) -> list[str] | None:
    """The names of the files in a folder, sorted; None where `path` is no folder."""
    if not is_url(path):
        try:
            return sorted(item.name for item in os.scandir(path) if item.is_file())
        except NotADirectoryError:
            return None
        except (OSError, ValueError) as error:
            raise ReadError(f"cannot read {brief(path)}: {_reason(error)}") from error
    system, key = _system(path)
    if not _asked(path, lambda: system.isdir(key)):
        return None
    found = _asked(path, lambda: system.ls(key, detail=True))
    return sorted(item["name"].rstrip("/").rpartition("/")[2] for item in found if item["type"] == "file")


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


def _system(path: str) -> tuple[Any, str]:
    """The file system behind a URL, and the file's key in it."""
    try:
        core = importlib.import_module("fsspec.core")
    except ImportError as error:
        raise ReadError(f"{brief(path)} is remote: pip install torch-assay[remote] to read it") from error
    system, key = _asked(path, lambda: core.url_to_fs(path))
    return system, key


def _asked(path: str, question: Callable[[], Any]) -> Any:
    try:
        return question()
    # Every backend raises its own kinds, and all mean the same here.
    except Exception as error:
        raise ReadError(f"cannot read {brief(path)}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or said(error)
