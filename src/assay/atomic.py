"""Atomic file writes: write a temporary file next to the target, then rename it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from assay.errors import UsageError, WriteError


def write_bytes(path: Path, data: bytes, *, overwrite: bool = True) -> None:
    """Write `data` to `path` atomically: a reader sees either the old file or the complete new one."""
    with open_atomic(path, overwrite=overwrite) as file:
        file.write(data)


@contextmanager
def open_atomic(path: Path, *, overwrite: bool = True) -> Iterator[BinaryIO]:
    """A binary file that replaces `path` if the block succeeds, and is deleted if it raises.

    A device or pipe is written to directly, and for a symbolic link its target is replaced, because a rename would
    turn either into a plain file.
    """
    if not overwrite and path.exists():
        raise UsageError(f"{path} already exists: choose another name or allow overwriting it")
    if path.is_dir():
        raise WriteError(f"cannot write {path}: it is a directory")
    temporary = ""
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                yield file
            return
        target = os.path.realpath(path)
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".assay-", suffix=".part")
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
        temporary = ""
    except OSError as error:
        raise WriteError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if temporary:
            _discard(temporary)


def make_directory(path: Path) -> None:
    """Create the directory `path` and its parents; raise WriteError if it cannot be created or written to."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(f"cannot create directory {path}: {error.strerror or error}") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise WriteError(f"cannot write to directory {path}: permission denied")


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _discard(name: str) -> None:
    try:
        os.unlink(name)
    except FileNotFoundError:
        return
