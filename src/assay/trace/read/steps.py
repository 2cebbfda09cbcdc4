"""The steps that a profiler marked."""

from __future__ import annotations

import numpy as np

from assay.document.trace import StepTimes
from assay.trace.read.activity import Activity
from assay.trace.read.categories import Role
from assay.trace.read.columns import Columns
from assay.trace.read.nesting import Forest, added


def step_rows(columns: Columns, forest: Forest, activity: Activity | None) -> list[StepTimes]:
    """A row for each step that the profiler marked, in time."""
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
