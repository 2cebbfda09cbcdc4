"""The trace directory of `assay run`: a manifest of the traces written, and deletion of the previous run's traces."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from assay.atomic import created_directory

MANIFEST = ".assay-traces"
_TRACE = re.compile(r"[A-Za-z0-9._-]+_forward_\d{3,}(_rank\d+)?\.json(\.gz)?")
"""Only files with names of this form are ever deleted, even if the manifest lists others."""


class TraceDirectory:
    """A directory for the traces of one run; traces of another run that is still using it are not deleted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = path / MANIFEST
        self.deleted_count = 0
        """Number of traces of the previous run that were deleted, after this one wrote its own."""
        self._previous = path / ".assay-previous"
        self._manifest_start = 0

    @contextlib.contextmanager
    def opened(self, *, keep: bool) -> Iterator[TraceDirectory]:
        """The directory, created if necessary; unless `keep`, the traces of the previous run are deleted.

        If no trace is written, they are kept, and what was created is removed.
        """
        with (
            created_directory(self.path),
            self.manifest.open("a+", encoding="utf-8", errors="replace") as file,
            self._exclusive(file, keep=keep),
        ):
            self._manifest_start = file.seek(0, 2)
            yield self

    def written(self) -> list[Path]:
        """The existing traces of this run, in the order they were written."""
        if not self.manifest.exists():  # removed by a run at the same time
            return []
        with self.manifest.open("rb") as file:
            file.seek(self._manifest_start)
            names = file.read().decode("utf-8", "replace").splitlines()
        return [self.path / name for name in dict.fromkeys(names) if (self.path / name).is_file()]

    @contextlib.contextmanager
    def _exclusive(self, file: IO[str], *, keep: bool) -> Iterator[None]:
        """Unless another run uses the directory: put the previous traces aside, and clean up after the run."""
        if not _lock(file):
            yield
            return
        listed = "" if keep else self._put_aside(file)
        try:
            yield
        finally:
            self._clean_up(listed)

    def _put_aside(self, file: IO[str]) -> str:
        """Move the traces of the previous run into a hidden directory; returns the manifest, which is emptied."""
        self._put_back()  # those of a run that was killed
        file.seek(0)
        listed = file.read()
        names = [name for name in dict.fromkeys(listed.splitlines()) if _TRACE.fullmatch(name)]
        traces = [self.path / name for name in names]
        present = [trace for trace in traces if trace.is_file() and not trace.is_symlink()]
        if present:
            self._previous.mkdir(exist_ok=True)
        for trace in present:
            trace.rename(self._previous / trace.name)
        file.truncate(0)
        return listed

    def _put_back(self) -> None:
        for trace in self._previous.iterdir() if self._previous.is_dir() else ():
            trace.rename(self.path / trace.name)
        with contextlib.suppress(OSError):
            self._previous.rmdir()

    def _clean_up(self, listed: str) -> None:
        """Delete the previous traces if this run wrote some; else restore them and the manifest `listed`."""
        if self.written():
            if self._previous.is_dir():
                self.deleted_count = len(list(self._previous.iterdir()))
                shutil.rmtree(self._previous)
            return
        self._put_back()
        if listed:
            self.manifest.write_text(listed, encoding="utf-8", errors="replace")
        elif not self.manifest.stat().st_size:
            self.manifest.unlink()


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
