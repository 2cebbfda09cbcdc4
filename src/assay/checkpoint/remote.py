"""Files behind URLs, read by ranges through fsspec, which is imported when the first of them is opened."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

from assay.errors import ReadError
from assay.messages import brief, error_line

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+://")
_WEB = re.compile(r"https?://", re.IGNORECASE)
_AT_ONCE = 1000
"""Ranges asked for in one go; each is its own request, run side by side."""


def is_url(path: str) -> bool:
    """Whether `path` names a remote file: `is_url("s3://bucket/key")`."""
    return _URL.match(path) is not None


class RemoteFile:
    """A file behind a URL."""

    coded = None

    def __init__(self, path: str) -> None:
        self.path = path
        self._system, self._key = _system(path)

    @cached_property
    def size(self) -> int:
        """Bytes of the whole file; asked for once, and not at all where only known ranges are read."""
        size = _asked(self.path, lambda: self._system.info(self._key)["size"])
        if type(size) is not int:
            raise ReadError(f"cannot read {brief(self.path)}: its server does not say how large it is")
        return size

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`, or a `ReadError`."""
        if not length:
            return b""
        fetch = self._fetch
        return self._whole(_asked(self.path, lambda: fetch(offset, offset + length)), offset, length)

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

    @cached_property
    def _fetch(self) -> Callable[[int, int], Any]:
        """Gets the bytes from a start to an end."""
        if not _WEB.match(self.path):
            return lambda start, end: self._system.cat_file(self._key, start=start, end=end)
        # A web server may answer with the whole file; this way of asking notices before it has been fetched.
        size = self.size
        file = _asked(self.path, lambda: self._system.open(self._key, size=size, cache_type="none"))
        return partial(_part, self.path, file)

    def _whole(self, data: Any, offset: int, length: int) -> bytes:
        if not isinstance(data, bytes) or len(data) != length:
            raise ReadError(f"{brief(self.path)}: {length} bytes at {offset} were asked for and did not come")
        return data


def remote_names(path: str) -> list[str] | None:
    """The names of the files in a remote folder, sorted; None where `path` is no folder."""
    system, key = _system(path)
    # Asking a web server whether an address is a folder would fetch the whole file that it may as well be.
    folder = path.endswith("/") if _WEB.match(path) else _asked(path, lambda: system.isdir(key))
    if not folder:
        return None
    found = _asked(path, lambda: system.ls(key, detail=True))
    return sorted(item["name"].rstrip("/").rpartition("/")[2] for item in found if item["type"] == "file")


def _part(path: str, file: Any, start: int, end: int) -> Any:
    try:
        return file._fetch_range(start, end)
    except ValueError as error:
        raise ReadError(f"{brief(path)}: its server does not send parts of a file: download it first") from error


def _system(path: str) -> tuple[Any, str]:
    """The file system behind a URL, and the file's key in it."""
    try:
        core = importlib.import_module("fsspec.core")
    except ImportError as error:
        raise ReadError(f"{brief(path)} is remote: pip install torch-assay[remote] to read it") from error
    try:
        system, key = _asked(path, lambda: core.url_to_fs(path))
    except ReadError as error:
        if isinstance(error.__cause__, ImportError):
            kind = path.partition("://")[0]
            wanted = _PACKAGES.get(kind.lower(), "a backend of fsspec")
            raise ReadError(f"{brief(path)} is remote: pip install {wanted} to read {kind}:// addresses") from error
        raise
    return system, key


_PACKAGES = {
    "s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "hf": "huggingface_hub", "az": "adlfs",
    "abfs": "adlfs", "abfss": "adlfs", "http": "torch-assay[remote]", "https": "torch-assay[remote]",
    "sftp": "paramiko", "ssh": "paramiko", "webhdfs": "requests", "hdfs": "pyarrow", "smb": "smbprotocol",
}  # fmt: skip
"""What fsspec needs besides itself, by the scheme of an address."""


def _asked(path: str, question: Callable[[], Any]) -> Any:
    try:
        return question()
    except ReadError:
        raise
    # Every backend raises its own kinds, and all mean the same here.
    except Exception as error:
        raise ReadError(f"cannot read {brief(path)}: {reason(error)}") from error


def reason(error: Exception) -> str:
    """Why something could not be read, in the system's words where it has any."""
    if isinstance(error, FileNotFoundError) and not error.strerror:
        return "not found, or its server does not answer"
    return getattr(error, "strerror", None) or error_line(error)
