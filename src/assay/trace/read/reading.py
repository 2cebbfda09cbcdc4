"""Reads a trace file into rows: the entry points of this package."""

from __future__ import annotations

import codecs
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from assay.document.trace import Trace
from assay.errors import ReadError, UsageError
from assay.messages import plural
from assay.trace.read.activity import activity_of
from assay.trace.read.backward import backward_of
from assay.trace.read.columns import Columns, scan
from assay.trace.read.devices import device_times, loading
from assay.trace.read.intervals import length
from assay.trace.read.layers import TraceContents, layer_rows, outside_rows, unattributed_rows
from assay.trace.read.memory import memory_layers, timelines
from assay.trace.read.modules import facts_of, modules_of
from assay.trace.read.nesting import forest_of
from assay.trace.read.opening import Pieces, Progress
from assay.trace.read.tables import kernel_rows, op_rows, step_rows, thread_rows

_RANK = re.compile(r"rank[_-]?(\d+)", re.IGNORECASE)
_FALLBACKS = {
    "nn.Module": "no module paths in the trace: layers are torch's class names with a number",
    "annotations": "no modules in the trace: layers are the user's annotations",
    "": "no modules in the trace: group by op or by kernel instead",
}


def read_trace(path: str | os.PathLike[str], *, progress: Progress | None = None) -> Trace:
    """Analyse a Chrome or Kineto trace by layers, ops, kernels, steps and memory.

    Args:
        path: The path of the trace, plain JSON or gzip. Truncated and damaged files are read as far as possible.
        progress: Called with the number of bytes read so far and the total.

    Returns:
        The times of the trace. Its `notes` and `skipped` describe what could not be read.

    Raises:
        UsageError: `path` is not a path.
        ReadError: The file cannot be read or contains no trace events.
    """
    return summarize(open_trace(path, progress=progress))


def _why_without_events(path: str | os.PathLike[str], columns: Columns) -> str:
    """Why no event was found in the file: it is empty, not JSON, damaged, or other JSON."""
    text = next(iter(Pieces(path)), b"").removeprefix(codecs.BOM_UTF8).lstrip()
    if not text and not any("gzip" in note for note in columns.notes):
        return "is empty"
    if text and text[:1] not in b"{[":
        return "is not JSON"
    if columns.notes:
        return f"has no trace events ({columns.notes[0]})"
    return "has no traceEvents"


def open_trace(
    path: str | os.PathLike[str], *, progress: Progress | None = None, engine: Any = None
) -> TraceContents:
    """The spans of the trace at `path`, nested and attributed to modules."""
    if not isinstance(path, (str, os.PathLike)):
        raise UsageError(f"the path of a trace must be a string or a Path, got {path!r}")
    columns = scan(path, progress, engine)
    if not columns.rows and not columns.events:
        raise ReadError(f"{path} {_why_without_events(path, columns)}: expected a Chrome or Kineto trace")
    forest = forest_of(columns, engine)
    activity = activity_of(columns, forest)
    steps = step_rows(columns, forest, activity)
    columns.forget("start", "duration", "name", "track", "external", "link", "mark")
    modules = modules_of(columns, forest)
    backward = backward_of(columns, forest, modules)
    columns.forget("sequence", "flow")
    return TraceContents(
        columns=columns,
        forest=forest,
        modules=modules,
        backward=backward,
        activity=activity,
        memory_layers=memory_layers(columns, forest, modules),
        steps=steps,
        facts=facts_of(columns),
    )


def summarize(parts: TraceContents) -> Trace:
    """The rows of all tables of an opened trace."""
    columns, forest, activity, facts = parts.columns, parts.forest, parts.activity, parts.facts
    begin, end = _bounds(parts)
    threads = thread_rows(parts)
    rank, world = _rank(columns, facts.rank if facts else None)
    return Trace(
        path=columns.path,
        wall_ns=end - begin,
        cpu_ns=sum(thread.cpu_ns for thread in threads),
        gpu_ns=int(activity.duration.sum()) if activity is not None else None,
        layers_from=parts.modules.origin,
        layers=layer_rows(parts),
        outside=outside_rows(parts),
        unattributed=unattributed_rows(parts),
        ops=op_rows(parts),
        kernels=kernel_rows(parts),
        steps=parts.steps,
        threads=threads,
        devices=device_times(columns, forest, activity) if activity is not None else [],
        memory=timelines(columns, parts.memory_layers, parts.modules.names, begin),
        model_name=facts.model_name if facts else "",
        rank=rank,
        world_size=world,
        events=columns.events,
        skipped=dict(sorted(columns.skipped.items())),
        complete=columns.complete,
        notes=_notes(parts),
        loading_ns=length(*loading(columns, forest)),
    )


def _bounds(parts: TraceContents) -> tuple[int, int]:
    """The start of the first and the end of the last span on any thread or accelerator."""
    starts, ends = [parts.forest.start], [parts.forest.end]
    if parts.activity is not None:
        starts.append(parts.activity.start)
        ends.append(parts.activity.end)
    start, end = np.concatenate(starts), np.concatenate(ends)
    return (int(start.min()), int(end.max())) if len(start) else (0, 0)


def _rank(columns: Columns, captured_rank: int | None) -> tuple[int | None, int | None]:
    """The rank and the world size: from the trace's metadata, else the rank from the file name."""
    try:
        metadata = msgspec.json.decode(columns.root.get("distributedInfo", "{}"))
    except msgspec.DecodeError:
        metadata = {}
    distributed = metadata if isinstance(metadata, dict) else {}
    world = distributed.get("world_size")
    rank = captured_rank if captured_rank is not None else distributed.get("rank")
    if not isinstance(rank, int):
        match = _RANK.search(Path(columns.path).name)
        rank = int(match[1]) if match else None
    return rank, world if isinstance(world, int) else None


def _notes(parts: TraceContents) -> tuple[str, ...]:
    notes = [*parts.columns.notes, *(parts.facts.notes if parts.facts else ())]
    if parts.facts is not None and parts.facts.error is not None:
        notes.append(f"the pass failed with {parts.facts.error}: times cover only what ran before")
    if parts.modules.origin in _FALLBACKS:
        notes.append(_FALLBACKS[parts.modules.origin])
    if parts.forest.overlapping:
        notes.append(f"{plural(parts.forest.overlapping, 'span')} overlapped without nesting and had to be shortened")
    if any("\ufffd" in name for name in parts.columns.names):
        notes.append("some names contain invalid UTF-8, which is shown as replacement characters")
    return tuple(notes)
