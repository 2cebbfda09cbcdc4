"""Reads many trace files, also from directories, in parallel processes or on a Ray cluster."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay import host
from assay.cluster import connected_ray
from assay.document.trace import Trace
from assay.errors import AssayError, ReadError, UsageError
from assay.messages import first_line
from assay.trace.read.opening import Progress
from assay.trace.read.reading import read_trace

PROCESSES, RAY = ENGINES = ("processes", "ray")
SUFFIXES = (".json", ".json.gz")
_WORTH_BYTES = 32 << 20
"""Below this total size, starting processes takes longer than reading the files here."""
_RETRIES = 2


@dataclass(frozen=True)
class UnreadableTrace:
    """A file that could not be read, and the reason."""

    path: str
    why: str


def trace_files(paths: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """The trace files in `paths`, with directories expanded and sorted by name.

    A missing file among several paths is kept, so that reading reports it. Raises ReadError if the only path does not
    exist or a directory contains no trace files.
    """
    files: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(each for each in path.iterdir() if each.name.endswith(SUFFIXES) and each.is_file())
            if not inside:
                raise ReadError(f"no trace files in {path}: expected *.json or *.json.gz")
            files += inside
        elif path.exists() or len(paths) > 1:
            files.append(path)
        else:
            raise ReadError(f"no such file or directory: {path}")
    return list(dict.fromkeys(files))


def read_with(
    engine: str,
    files: Sequence[Path],
    *,
    workers: int | None = None,
    address: str | None = None,
    progress: Progress | None = None,
) -> list[Trace | UnreadableTrace]:
    """Each file's trace, or the reason it could not be read; `engine` is `processes` or `ray`."""
    if engine not in ENGINES:
        raise UsageError(f"unknown engine {engine!r}: choose from {', '.join(ENGINES)}")
    if engine == RAY:
        return read_traces_on_ray(files, address=address, workers=workers, progress=progress)
    return read_traces(files, workers=workers, progress=progress)


def read_traces(
    files: Sequence[Path],
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> list[Trace | UnreadableTrace]:
    """Each file's trace, or the reason it could not be read, in the order of `files`."""
    count = min(workers or host.processors(), len(files))
    if executor is None and (count < 2 or _size(files) < _WORTH_BYTES):
        results = (_read(file, progress if len(files) == 1 else None) for file in files)
        return list(results if len(files) == 1 else _with_progress(results, files, progress))
    if executor is not None:
        return list(_with_progress(executor.map(_read, files), files, progress))
    # Forking a process that has threads may deadlock, and the reader needs no state from this process.
    with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn")) as own:
        return list(_with_progress(own.map(_read, files), files, progress))


def read_traces_on_ray(
    files: Sequence[Path], *, address: str | None = None, workers: int | None = None, progress: Progress | None = None
) -> list[Trace | UnreadableTrace]:
    """Like `read_traces`, on the Ray cluster at `address` or on one started here; every node must see the files."""
    with connected_ray(address, workers) as ray:
        task = ray.remote(max_retries=_RETRIES)(_read)
        pending = [task.remote(file.absolute()) for file in files]
        return list(
            _with_progress(
                (_got(ray, file, each) for file, each in zip(files, pending, strict=True)), files, progress
            )
        )


def _got(ray: Any, file: Path, task: Any) -> Trace | UnreadableTrace:
    try:
        result: Trace | UnreadableTrace = ray.get(task)
    except ray.exceptions.RayError as error:
        return UnreadableTrace(str(file), f"the Ray task failed: {first_line(error)}")
    return result


def _read(file: Path, progress: Progress | None = None) -> Trace | UnreadableTrace:
    try:
        return read_trace(file, progress=progress)
    except AssayError as error:
        return UnreadableTrace(str(file), str(error))


def _size(files: Sequence[Path]) -> int:
    return sum(file.stat().st_size for file in files if file.exists())


def _with_progress(
    results: Iterator[Trace | UnreadableTrace], files: Sequence[Path], progress: Progress | None
) -> Iterator[Trace | UnreadableTrace]:
    """Yield the results as they arrive, reporting progress in bytes of their files."""
    total, done = _size(files), 0
    report = progress or (lambda done, total: None)
    report(done, total)
    for file, result in zip(files, results, strict=True):
        done += _size([file])
        report(done, total)
        yield result
