"""The trace directory of `assay run`: a manifest of the traces written, and deletion of the previous run's traces."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from assay.atomic import make_directory

MANIFEST = ".assay-traces"
_TRACE = re.compile(r"[A-Za-z0-9._-]+_forward_\d{3,}(_rank\d+)?\.json(\.gz)?")
"""Only files with names of this form are ever deleted, even if the manifest lists others."""


class TraceDirectory:
    """A directory for the traces of one run; traces of another run that is still using it are not deleted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = path / MANIFEST
        self.deleted_count = 0
        """Number of traces of the previous run that were deleted."""
        self._manifest_start = 0

    @contextlib.contextmanager
    def opened(self, *, keep: bool) -> Iterator[TraceDirectory]:
        """The directory, created if necessary; unless `keep`, the traces of the previous run are deleted."""
        make_directory(self.path)
        with self.manifest.open("a+", encoding="utf-8", errors="replace") as file:
            if _lock(file) and not keep:
                self._clear(file)
            self._manifest_start = file.seek(0, 2)
            yield self

    def written(self) -> list[Path]:
        """The existing traces of this run, in the order they were written."""
        with self.manifest.open("rb") as file:
            file.seek(self._manifest_start)
            names = file.read().decode("utf-8", "replace").splitlines()
        return [self.path / name for name in dict.fromkeys(names) if (self.path / name).is_file()]

    def _clear(self, file: IO[str]) -> None:
        file.seek(0)
        for name in dict.fromkeys(file.read().splitlines()):
            trace = self.path / name
            if _TRACE.fullmatch(name) and trace.is_file() and not trace.is_symlink():
                trace.unlink()
                self.deleted_count += 1
        file.truncate(0)


def _lock(file: IO[str]) -> bool:
    """Lock the manifest while `file` is open; False if another run holds the lock."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
