"""Remote files, read in ranges through fsspec, which is imported when the first one is opened."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

from assay.errors import ReadError
from assay.messages import error_line, one_line

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+://")
_WEB = re.compile(r"https?://", re.IGNORECASE)
_RANGES_PER_REQUEST = 1000
"""Ranges passed to fsspec in one call; it fetches them concurrently."""


def is_url(path: str) -> bool:
    """Whether `path` names a remote file: `is_url("s3://bucket/key")`."""
    return _URL.match(path) is not None


class RemoteFile:
    """A file at a URL."""

    encoded = None

    def __init__(self, path: str) -> None:
        self.path = path
        self._system, self._key = _system(path)

    @cached_property
    def size(self) -> int:
        """Size of the file in bytes; requested once, and only if it is needed."""
        size = _request(self.path, lambda: self._system.info(self._key)["size"])
        if type(size) is not int:
            raise ReadError(
                f"cannot read {one_line(self.path)}: the server does not report its size; download it first"
            )
        return size

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`, or a `ReadError`."""
        if not length:
            return b""
        fetch = self._fetch
        return self._checked(_request(self.path, lambda: fetch(offset, offset + length)), offset, length)

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each (offset, length), fetched concurrently if the file system can."""
        contents: list[bytes] = []
        for first in range(0, len(ranges), _RANGES_PER_REQUEST):
            batch = ranges[first : first + _RANGES_PER_REQUEST]
            starts = [offset for offset, _ in batch]
            ends = [offset + length for offset, length in batch]
            pieces = _request(self.path, partial(self._system.cat_ranges, [self._key] * len(batch), starts, ends))
            contents += [self._checked(piece, *span) for piece, span in zip(pieces, batch, strict=True)]
        return contents

    def close(self) -> None:
        """Do nothing: there is no open file."""

    @cached_property
    def _fetch(self) -> Callable[[int, int], Any]:
        """Fetches the bytes from a start to an end offset."""
        if not _WEB.match(self.path):
            return lambda start, end: self._system.cat_file(self._key, start=start, end=end)
        # A web server may ignore the range and send the whole file; fsspec's file object detects that in time.
        size = self.size
        file = _request(self.path, lambda: self._system.open(self._key, size=size, cache_type="none"))
        return partial(_part, self.path, file)

    def _checked(self, data: Any, offset: int, length: int) -> bytes:
        if not isinstance(data, bytes) or len(data) != length:
            raise ReadError(f"{one_line(self.path)}: the server did not send the {length} bytes at offset {offset}")
        return data


def remote_names(path: str) -> list[str] | None:
    """The sorted names of the files in a remote directory; None if `path` is not a directory."""
    system, key = _system(path)
    # Over HTTP, testing for a directory could download the whole file, so only a trailing slash counts.
    is_folder = path.endswith("/") if _WEB.match(path) else _request(path, lambda: system.isdir(key))
    if not is_folder:
        return None
    items = _request(path, lambda: system.ls(key, detail=True))
    return sorted(item["name"].rstrip("/").rpartition("/")[2] for item in items if item["type"] == "file")


def _part(path: str, file: Any, start: int, end: int) -> Any:
    try:
        return file._fetch_range(start, end)
    except ValueError as error:
        raise ReadError(f"{one_line(path)}: the server does not support range requests; download it first") from error


def _system(path: str) -> tuple[Any, str]:
    """The fsspec file system of a URL, and the file's key in it."""
    try:
        core = importlib.import_module("fsspec.core")
    except ImportError as error:
        raise ReadError(f"{one_line(path)} is remote: run pip install torch-assay[remote] to read it") from error
    try:
        system, key = _request(path, lambda: core.url_to_fs(path))
    except ReadError as error:
        if isinstance(error.__cause__, ImportError):
            kind = path.partition("://")[0]
            package = _PACKAGES.get(kind.lower())
            step = f"run pip install {package}" if package else "install its fsspec backend"
            raise ReadError(f"{one_line(path)} is remote: {step} to read {kind}:// addresses") from error
        raise
    return system, key


_PACKAGES = {
    "s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "hf": "huggingface_hub", "az": "adlfs",
    "abfs": "adlfs", "abfss": "adlfs", "http": "torch-assay[remote]", "https": "torch-assay[remote]",
    "sftp": "paramiko", "ssh": "paramiko", "webhdfs": "requests", "hdfs": "pyarrow", "smb": "smbprotocol",
}  # fmt: skip
"""The package that fsspec needs for each URL scheme."""


def _request(path: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except ReadError:
        raise
    # Every backend raises its own exception types.
    except Exception as error:
        raise ReadError(f"cannot read {one_line(path)}: {reason(error)}") from error


def reason(error: Exception) -> str:
    """Why something could not be read: the operating system's message, if there is one."""
    if isinstance(error, FileNotFoundError) and not error.strerror:
        return "not found, or the server does not respond"
    return getattr(error, "strerror", None) or error_line(error)
