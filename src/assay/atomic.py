"""Atomic file writes: write a temporary file next to the target, then rename it.

An incomplete result is written beside the complete one, as `name.partial.json`, and never replaces it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from assay.errors import UsageError, WriteError

_PREFIX, _SUFFIX = ".assay-", ".part"
_STALE_S = 24 * 60 * 60
"""Age at which a temporary file counts as left behind by a killed process; younger ones may still be in use."""
_LONG_SUFFIXES = (".assay.json.gz", ".assay.json", ".json.gz")


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
        _discard_stale(os.path.dirname(target))
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=_PREFIX, suffix=_SUFFIX)
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


def write_result(path: Path, data: bytes, *, partial: bool, overwrite: bool) -> Path:
    """Write a result and return its path: `path`, or if it is incomplete, the path beside it.

    An incomplete result replaces only an earlier incomplete one, which a complete result removes.
    """
    beside = partial_path(path)
    if partial:
        write_bytes(beside, data)
        return beside
    write_bytes(path, data, overwrite=overwrite)
    if beside != path:
        beside.unlink(missing_ok=True)
    return path


def write_results(directory: Path, contents: Mapping[str, bytes], *, partial: bool, overwrite: bool) -> list[Path]:
    """Write the files of one result into `directory`, all or none, and return their paths; as `write_result`."""
    targets = {directory / name: data for name, data in contents.items()}
    if not partial and not overwrite:
        refuse_existing(targets)
    written = {partial_path(path) if partial else path: data for path, data in targets.items()}
    for path in written:
        if path.is_dir():
            raise WriteError(f"cannot write {path}: it is a directory")
    try:
        with created_directory(directory), tempfile.TemporaryDirectory(dir=directory, prefix=_PREFIX) as staging:
            # All files are staged first, so that a full disk leaves existing files intact.
            for path, data in written.items():
                write_bytes(Path(staging, path.name), data)
            for path in written:
                os.replace(Path(staging, path.name), path)
    except OSError as error:
        raise WriteError(f"cannot write into {directory}: {error.strerror or error}") from error
    for path in () if partial else targets:
        partial_path(path).unlink(missing_ok=True)
    return list(written)


def refuse_existing(paths: Iterable[Path]) -> None:
    """Raise UsageError if one of the files exists."""
    for path in paths:
        if path.exists():
            raise UsageError(f"{path} already exists: choose another name or allow overwriting it")


def partial_path(path: Path) -> Path:
    """The path of an incomplete result: `ops.partial.json` for `ops.json`; a pipe or device has none of its own."""
    if path.exists() and not path.is_file():
        return path
    suffix = next((suffix for suffix in _LONG_SUFFIXES if path.name.endswith(suffix)), path.suffix)
    return path.with_name(f"{path.name.removesuffix(suffix)}.partial{suffix}")


@contextmanager
def created_directory(directory: Path) -> Iterator[None]:
    """Create `directory` and its parents if missing; those that are still empty after the block are removed again."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    try:
        make_directory(directory)
        yield
    finally:
        for path in missing:
            with suppress(OSError):  # it is not empty
                path.rmdir()


def check_directory(directory: Path) -> None:
    """Raise `WriteError` if `directory` cannot be created or written into; nothing is created."""
    present = directory.absolute()
    while not present.exists() and present != present.parent:
        present = present.parent
    if not present.is_dir():
        raise WriteError(f"cannot write into {directory}: {present} is not a directory")
    if not os.access(present, os.W_OK | os.X_OK):
        raise WriteError(f"cannot write into {directory}: permission denied for {present}")


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


def _discard_stale(directory: str) -> None:
    """Delete temporary files that a killed process left in `directory`."""
    oldest = time.time() - _STALE_S
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and entry.name.endswith(_SUFFIX):
                with suppress(OSError):  # another process renamed it meanwhile, or owns it
                    if entry.stat().st_mtime < oldest:
                        _discard(entry.path)


def _discard(name: str) -> None:
    try:
        os.unlink(name)
    except FileNotFoundError:
        return
