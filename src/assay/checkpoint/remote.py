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
TIME_LIMIT_S = 30.0
"""How long a web server may be silent, and how long a request for a file's size may take."""
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
        self._silent = False
        """Whether a request has timed out: further ones would only wait again."""

    @cached_property
    def size(self) -> int:
        """Size of the file in bytes; requested once, and only if it is needed."""
        size = self._request(lambda: _info(self._system, self._key)["size"])
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
        return self._checked(self._request(lambda: fetch(offset, offset + length)), offset, length)

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each (offset, length), fetched concurrently if the file system can."""
        contents: list[bytes] = []
        for first in range(0, len(ranges), _RANGES_PER_REQUEST):
            batch = ranges[first : first + _RANGES_PER_REQUEST]
            starts = [offset for offset, _ in batch]
            ends = [offset + length for offset, length in batch]
            pieces = self._request(partial(self._system.cat_ranges, [self._key] * len(batch), starts, ends))
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
        file = self._request(lambda: self._system.open(self._key, size=size, cache_type="none"))
        return partial(_part, self.path, file)

    def _request(self, call: Callable[[], Any]) -> Any:
        """The result of `call`; after a request that timed out, all others fail at once."""
        if self._silent:
            raise _silence(self.path)
        try:
            return _request(self.path, call)
        except ReadError as error:
            self._silent = is_timeout(error)
            raise

    def _checked(self, data: Any, offset: int, length: int) -> bytes:
        if isinstance(data, Exception):
            self._silent = is_timeout(data)
            raise _silence(self.path) if self._silent else _unreadable(self.path, data)
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
        system, key = _request(path, lambda: core.url_to_fs(path, **_options(path)))
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
        raise (_silence(path) if is_timeout(error) else _unreadable(path, error)) from error


def _options(path: str) -> dict[str, Any]:
    """Options of fsspec for a web address: it gives up on a silent server, but never on a slow one."""
    if not _WEB.match(path):
        return {}
    limits = importlib.import_module("aiohttp").ClientTimeout(
        total=None, sock_connect=TIME_LIMIT_S, sock_read=TIME_LIMIT_S
    )
    configured = importlib.import_module("fsspec.config").conf.get(path.partition("://")[0].lower(), {})
    return {"client_kwargs": {"timeout": limits, **configured.get("client_kwargs", {})}}


def _info(system: Any, key: str) -> Any:
    """What the server states about a file. fsspec tries two kinds of request: one limit holds for both."""
    if not system.async_impl:
        return system.info(key)
    return importlib.import_module("fsspec.asyn").sync(system.loop, system._info, key, timeout=TIME_LIMIT_S)


def is_timeout(error: BaseException | None) -> bool:
    """Whether a time limit is the cause of `error`."""
    timeouts = (TimeoutError, importlib.import_module("asyncio").TimeoutError)  # one class since Python 3.11
    return error is not None and (isinstance(error, timeouts) or is_timeout(error.__cause__))


def _silence(path: str) -> ReadError:
    limit = f"{TIME_LIMIT_S:g} s"
    return ReadError(
        f"cannot read {one_line(path)}: the server sent nothing for {limit}; try again, or download it first"
    )


def _unreadable(path: str, error: Exception) -> ReadError:
    return ReadError(f"cannot read {one_line(path)}: {reason(error)}")


def reason(error: Exception) -> str:
    """Why something could not be read: the operating system's message, if there is one."""
    if isinstance(error, FileNotFoundError) and not error.strerror:
        return "not found, or the server does not respond"
    return getattr(error, "strerror", None) or error_line(error)
