"""The directory that `assay run` owns: the list of what a run wrote there, and clearing the last run's away."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from assay.atomic import make_directory

MANIFEST = ".assay-traces"
_TRACE = re.compile(r"[A-Za-z0-9._-]+_forward_\d{3,}(_rank\d+)?\.json(\.gz)?")
"""Only names of this form are ever removed, whatever a manifest says."""


class TraceDirectory:
    """A directory for one run's traces; another run that is using it at the same time is left alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = path / MANIFEST
        self.removed = 0
        """Traces of the last run that made way."""
        self._before = 0

    @contextlib.contextmanager
    def opened(self, *, keep: bool) -> Iterator[TraceDirectory]:
        """The directory, ready; without `keep` the traces that the last run wrote are gone."""
        make_directory(self.path)
        with self.manifest.open("a+", encoding="utf-8", errors="replace") as file:
            if _alone(file) and not keep:
                self._clear(file)
            self._before = file.seek(0, 2)
            yield self

    def written(self) -> list[Path]:
        """The traces of this run that are there, in the order they were written."""
        with self.manifest.open("rb") as file:
            file.seek(self._before)
            names = file.read().decode("utf-8", "replace").splitlines()
        return [self.path / name for name in dict.fromkeys(names) if (self.path / name).is_file()]

    def _clear(self, file: IO[str]) -> None:
        file.seek(0)
        for name in dict.fromkeys(file.read().splitlines()):
            trace = self.path / name
            if _TRACE.fullmatch(name) and trace.is_file() and not trace.is_symlink():
                trace.unlink()
                self.removed += 1
        file.truncate(0)


def _alone(file: IO[str]) -> bool:
    """Whether no other run has the directory now; it stays ours while `file` is open."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
