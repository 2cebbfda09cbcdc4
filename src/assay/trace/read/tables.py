"""Tables of the ops, kernels, steps and threads of a trace."""

from __future__ import annotations

import numpy as np

from assay.document.trace import KernelTimes, OpTimes, StepTimes, ThreadTimes
from assay.trace.read.activity import KINDS, Activity
from assay.trace.read.categories import Role
from assay.trace.read.columns import Columns, Flags
from assay.trace.read.layers import TraceContents, silent_ns
from assay.trace.read.nesting import Forest, added, looked_up
from assay.trace.read.spreads import NEVER, spreads


def op_rows(parts: TraceContents) -> list[OpTimes]:
    """One row per op name, sorted by accelerator time, then by CPU self time."""
    columns, forest = parts.columns, parts.forest
    is_op = (columns.roles == Role.OP) & (parts.modules.layer_of_name[:-1] < 0)
    chosen = np.flatnonzero(forest.flagged(is_op))
    count = len(columns.names)
    names = forest.name[chosen]
    # Spans that are not ops, such as runtime calls, count as self time of the op around them.
    own = added(names, forest.own_among(forest.flagged(is_op))[chosen], count)
    total = added(names, forest.duration[chosen], count)
    calls = np.bincount(names, minlength=count)
    per_call = spreads(names, forest.duration[chosen], count)
    gpu, kernels = _launched(parts, is_op, count)
    rows = [
        OpTimes(
            name=columns.names[i],
            calls=int(calls[i]),
            cpu_total_ns=int(total[i]),
            cpu_self_ns=int(own[i]),
            per_call=per_call[i] or NEVER,
            gpu_ns=gpu[i] if gpu else None,
            kernels=kernels[i] if kernels else None,
        )
        for i in np.flatnonzero(calls).tolist()
    ]
    return sorted(rows, key=lambda row: (-(row.gpu_ns or 0), -row.cpu_self_ns, row.name))


def _launched(parts: TraceContents, is_op: Flags, count: int) -> tuple[list[int], list[int]] | tuple[None, None]:
    """Accelerator time and number of kernels, by the name of the innermost op that launched them."""
    if parts.activity is None:
        return None, None
    source, forest = parts.activity.source, parts.forest
    op = looked_up(forest.nearest(forest.flagged(is_op)), source, -1)
    inside = op >= 0
    names = forest.name[op[inside]]
    return (
        added(names, parts.activity.duration[inside], count).tolist(),
        np.bincount(names, minlength=count).tolist(),
    )


def kernel_rows(parts: TraceContents) -> list[KernelTimes]:
    """One row per name of a kernel, copy or fill, longest total time first."""
    activity, columns = parts.activity, parts.columns
    if activity is None:
        return []
    count = len(columns.names)
    calls = np.bincount(activity.name, minlength=count)
    total = added(activity.name, activity.duration, count)
    per_call = spreads(activity.name, activity.duration, count)
    launched = np.flatnonzero(activity.launch >= 0)
    latency = activity.start[launched] - parts.forest.start[activity.launch[launched]]
    latencies = spreads(activity.name[launched], latency, count)
    sized = activity.bytes >= 0
    moved = added(activity.name[sized], activity.bytes[sized], count)
    kind = np.zeros(count, dtype=np.int8)
    kind[activity.name] = activity.kind
    rows = [
        KernelTimes(
            name=columns.names[i],
            kind=KINDS[kind[i]],
            calls=int(calls[i]),
            gpu_ns=int(total[i]),
            per_call=per_call[i] or NEVER,
            latency=latencies[i],
            bytes=int(moved[i]) or None,
        )
        for i in np.flatnonzero(calls).tolist()
    ]
    return sorted(rows, key=lambda row: (-row.gpu_ns, row.name))


def thread_rows(parts: TraceContents) -> list[ThreadTimes]:
    """One row per thread that has spans."""
    forest = parts.forest
    bounds = forest.track_starts.tolist()
    begin = int(forest.start.min()) if forest.size else 0
    rows = []
    for first, behind, silent in zip(bounds[:-1], bounds[1:], silent_ns(forest), strict=True):
        track = parts.columns.tracks[int(forest.track[first])]
        length = int(forest.end[first:behind].max()) - int(forest.start[first])
        rows.append(
            ThreadTimes(
                name=track.name or f"process {track.process}, thread {track.thread}",
                start_ns=int(forest.start[first]) - begin,
                cpu_ns=length,
                recorded_ns=length - silent,
                spans=behind - first,
            )
        )
    return rows


def step_rows(columns: Columns, forest: Forest, activity: Activity | None) -> list[StepTimes]:
    """One row per step marked by the profiler, in chronological order."""
    rows = columns.with_role(Role.STEP)
    rows = rows[np.argsort(columns["start"][rows], kind="stable")]
    start, duration = columns["start"][rows], columns["duration"][rows]
    gpu = kernels = None
    if activity is not None and len(rows):
        launched = activity.launch >= 0
        times = forest.start[activity.launch[launched]]
        place = np.searchsorted(start, times, side="right") - 1
        inside = (place >= 0) & (times < (start + duration)[place])
        gpu = added(place[inside], activity.duration[launched][inside], len(rows)).tolist()
        kernels = np.bincount(place[inside], minlength=len(rows)).tolist()
    begin = int(forest.start.min()) if forest.size else 0
    return [
        StepTimes(
            name=columns.names[columns["name"][row]],
            start_ns=int(columns["start"][row]) - begin,
            cpu_ns=int(columns["duration"][row]),
            gpu_ns=gpu[i] if gpu else None,
            kernels=kernels[i] if kernels else None,
        )
        for i, row in enumerate(rows.tolist())
    ]
