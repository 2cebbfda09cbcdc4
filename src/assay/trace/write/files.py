"""Writes a trace atomically: it is exported to a temporary file, checked, and given its final name in one step."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from assay.atomic import created_directory
from assay.errors import WriteError

_TAIL = 4096
"""The number of bytes at the end of the file in which to look for the last key that torch writes, the file name."""
_TRACE_NAME = b'"traceName":'
_GZIP_LEVEL = 3
"""Twice as fast as level 6, for traces that are less than a tenth larger."""

_parts = itertools.count()


def place(
    export: Callable[[str], None], directory: Path, name: Callable[[], str], on_name_taken: Callable[[], None]
) -> Path:
    """Write a trace with `export`, name it with `name()` and return its path.

    If a file of that name exists, `on_name_taken` is called, then `name` again. Existing files are never
    changed, and readers never see an incomplete one.
    """
    part = directory / f".assay-{os.getpid()}-{next(_parts)}.part"
    with created_directory(directory):
        try:
            export(os.fspath(part))
            while not _named(part, target := directory / name()):
                on_name_taken()
            return target
        except OSError as error:
            raise WriteError(f"cannot write a trace into {directory}: {error.strerror or error}") from error
        finally:
            # Torch itself writes to another temporary file, which it leaves behind if it fails.
            for path in (part, _packed_name(part), part.with_suffix(".part.tmp")):
                with contextlib.suppress(OSError):
                    path.unlink()


def _finish(part: Path, name: str) -> None:
    """Replace the file name inside the trace by the final one; raises OSError if the export is incomplete."""
    if not part.exists():
        raise OSError("torch did not write a complete file: is the disk full?")
    with part.open("r+b") as file:
        file.seek(max(0, part.stat().st_size - _TAIL))
        start, tail = file.tell(), file.read()
        if not tail.rstrip().endswith(b"}"):
            raise OSError("the file is incomplete: is the disk full?")
        at = tail.rfind(_TRACE_NAME)
        if at >= 0:
            file.seek(start + at)
            file.write(_TRACE_NAME + b" " + json.dumps(name).encode() + b"\n}\n")
            file.truncate()


def _packed_name(part: Path) -> Path:
    return part.with_suffix(".part.gz")


def _compressed(part: Path) -> Path:
    packed = _packed_name(part)
    with part.open("rb") as source, gzip.open(packed, "wb", compresslevel=_GZIP_LEVEL) as target:
        shutil.copyfileobj(source, target, 1 << 20)
    return packed


def _named(part: Path, target: Path) -> bool:
    """Give the trace in `part` its final name; False if that name is taken, perhaps just now by another process."""
    _finish(part, target.name)
    source = _compressed(part) if target.suffix == ".gz" else part
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        if target.exists():
            return False
        os.replace(source, target)
    return True
