"""`assay.read_trace`, `assay.read_traces` and `assay.compare_traces`: the times of layers in Chrome traces."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import cast

from assay.api.arguments import check_callable, check_whole, path_of
from assay.document.trace import Trace, TraceDiff, Traces
from assay.errors import ReadError, UsageError
from assay.trace.read.across import trace_sets
from assay.trace.read.diff import compare
from assay.trace.read.opening import Progress
from assay.trace.read.parallel import UnreadableTrace, read_with, trace_files
from assay.trace.read.reading import read_trace

__all__ = ["compare_traces", "read_trace", "read_traces"]

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def read_traces(
    paths: Paths,
    *,
    engine: str = "processes",
    workers: int | None = None,
    address: str | None = None,
    progress: Progress | None = None,
) -> Traces:
    """Read many Chrome traces and group them by model, to see how layers vary across passes and ranks.

    Args:
        paths: One or several trace files, or directories of them.
        engine: `"processes"` reads on this machine, `"ray"` on a Ray cluster.
        workers: Number of processes, or of CPUs of a local Ray cluster. Default: one per CPU.
        address: The Ray cluster to connect to, if `engine` is `"ray"`. If None, a local one is started.
        progress: Called with the bytes read so far and the total bytes. Default: no progress reports.

    Returns:
        The traces grouped by model, in `models`. `failures` maps each file that cannot be read to the reason.

    Raises:
        UsageError: An argument is not valid, or Ray cannot be started.
        ReadError: None of the files can be read.
    """
    traces, failures = _read(paths, engine, workers, address, progress)
    return Traces(trace_sets(traces), failures)


def compare_traces(before: Paths, after: Paths, *, progress: Progress | None = None) -> TraceDiff:
    """Compare the layers of two sets of traces, and separate real changes from the spread between passes.

    Args:
        before: The trace files or directory to compare against.
        after: The trace files or directory to compare.
        progress: Called with the bytes read so far and the total bytes. Default: no progress reports.

    Returns:
        The comparison: `total` for the whole pass and one row per layer in `layers`, each with the median self time
        per pass before and after in nanoseconds, and a `verdict` such as `"slower"` or `"same"`.

    Raises:
        UsageError: An argument is not valid.
        ReadError: A file cannot be read.
    """
    sides = [_read(side, progress=progress) for side in (before, after)]
    for _, failures in sides:
        if failures:
            raise ReadError(next(iter(failures.values())))
    return compare(sides[0][0], sides[1][0])


def _read(
    paths: Paths,
    engine: str = "processes",
    workers: int | None = None,
    address: str | None = None,
    progress: Progress | None = None,
) -> tuple[list[Trace], dict[str, str]]:
    single = isinstance(paths, (str, os.PathLike, bytes)) or not isinstance(paths, Iterable)
    each: Iterable[object] = [paths] if single else cast("Iterable[object]", paths)
    files = [path_of("a trace", path) for path in each]
    if not files:
        raise UsageError("no traces were given: expected files or directories")
    check_whole("workers", workers, optional=True)
    check_callable("progress", progress, optional=True)
    results = read_with(engine, trace_files(files), workers=workers, address=address, progress=progress)
    return split_failures(results)


def split_failures(results: Sequence[Trace | UnreadableTrace]) -> tuple[list[Trace], dict[str, str]]:
    """The traces that were read, and the reason for each unreadable file by its path; raises if none was read."""
    traces = [result for result in results if isinstance(result, Trace)]
    failures = {result.path: result.why for result in results if not isinstance(result, Trace)}
    if not traces:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise ReadError(f"{next(iter(failures.values()))}{more}")
    return traces, failures
