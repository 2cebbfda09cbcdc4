"""`assay.read_trace`, `assay.read_traces` and `assay.compare_traces`: what Chrome traces show about layers."""

from __future__ import annotations

import os
from collections.abc import Sequence

from assay.document.trace import Trace, TraceDiff, Traces
from assay.errors import ReadError, UsageError
from assay.trace.read.across import trace_sets
from assay.trace.read.diff import compared
from assay.trace.read.opening import Progress
from assay.trace.read.parallel import UnreadableTrace, read_with, trace_files
from assay.trace.read.reading import read_trace

__all__ = ["compare_traces", "read_trace", "read_traces"]

Places = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def read_traces(
    paths: Places,
    *,
    engine: str = "processes",
    workers: int | None = None,
    address: str | None = None,
    progress: Progress | None = None,
) -> Traces:
    """The traces in files or folders, taken together by model: how layers vary over passes and ranks.

    Files that cannot be read are listed in `failures`; `ReadError` is raised where none can.

    Args:
        paths: One or several trace files, or folders of them.
        engine: `"processes"`, or `"ray"` for a cluster.
        workers: Processes, or processors of a local Ray cluster; None uses one per processor.
        address: The Ray cluster to use; None starts one here.
        progress: Called with the bytes that are read and the bytes in all.
    """
    found, failures = _read(paths, engine, workers, address, progress)
    return Traces(trace_sets(found), failures)


def compare_traces(before: Places, after: Places, *, progress: Progress | None = None) -> TraceDiff:
    """What changed in each layer from one side to the other, and whether it exceeds the spread between passes.

    A file that cannot be read raises `ReadError`.

    Args:
        before: The trace files or folder of the first side.
        after: The trace files or folder of the second side.
        progress: Called with the bytes that are read and the bytes in all.
    """
    sides = [_read(side, progress=progress) for side in (before, after)]
    for _, failures in sides:
        if failures:
            raise ReadError(next(iter(failures.values())))
    return compared(sides[0][0], sides[1][0])


def _read(
    paths: Places,
    engine: str = "processes",
    workers: int | None = None,
    address: str | None = None,
    progress: Progress | None = None,
) -> tuple[list[Trace], dict[str, str]]:
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not given:
        raise UsageError("no traces were given: expected files or folders")
    found = read_with(engine, trace_files(given), workers=workers, address=address, progress=progress)
    return sorted_out(found)


def sorted_out(found: Sequence[Trace | UnreadableTrace]) -> tuple[list[Trace], dict[str, str]]:
    """The traces, and why each other file could not be read; raises where there is no trace at all."""
    traces = [each for each in found if isinstance(each, Trace)]
    failures = {each.path: each.why for each in found if not isinstance(each, Trace)}
    if not traces:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise ReadError(f"{next(iter(failures.values()))}{more}")
    return traces, failures
