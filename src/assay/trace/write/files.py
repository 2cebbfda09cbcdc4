"""Putting a trace in its place: exported beside it, checked, named once and for all in one step."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from assay.atomic import make_directory
from assay.errors import WriteError

_TAIL = 4096
"""Where to look for the last key that torch writes, the name of the file."""
_TRACE_NAME = b'"traceName":'
_GZIP_LEVEL = 3
"""Twice as fast as 6, and a trace is not a tenth larger for it."""

_parts = itertools.count()


def place(export: Callable[[str], None], directory: Path, name: Callable[[], str], taken: Callable[[], None]) -> Path:
    """The path of the trace that `export` wrote, named by `name`; `taken` is told where a file has that name.

    No file that is there is ever touched, and a reader never sees half of one.
    """
    make_directory(directory)
    part = directory / f".assay-{os.getpid()}-{next(_parts)}.part"
    try:
        export(os.fspath(part))
        while not _named(part, target := directory / name()):
            taken()
        return target
    except OSError as error:
        raise WriteError(f"cannot write a trace into {directory}: {error.strerror or error}") from error
    finally:
        # Torch writes into a file of yet another name, which it leaves where it fails.
        for path in (part, _packed_name(part), part.with_suffix(".part.tmp")):
            with contextlib.suppress(OSError):
                path.unlink()


def _finish(part: Path, name: str) -> None:
    """Replace the name torch wrote inside by the final one; an export that did not reach its end is refused."""
    if not part.exists():
        raise OSError("torch wrote no whole file: is the disk full?")
    with part.open("r+b") as file:
        file.seek(max(0, part.stat().st_size - _TAIL))
        start, tail = file.tell(), file.read()
        if not tail.rstrip().endswith(b"}"):
            raise OSError("the file is cut short: is the disk full?")
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
    """Give the trace in `part` its name; False where a file has it, perhaps another process's of this moment."""
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
