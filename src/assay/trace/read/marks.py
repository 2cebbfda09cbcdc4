"""Begin and end events made into spans, as complete events are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def joined_marks(arrays: dict[str, NDArray[Any]], skipped: dict[str, int]) -> list[str]:
    """Adds a span for every pair of marks to the columns; what is told about those without a partner."""
    count = len(arrays["mark_time"])
    if not count:
        return []
    last = int(max(arrays["mark_time"].max(), (arrays["start"] + arrays["duration"]).max(initial=0)))
    spans, unfinished, lost = _paired(arrays, last)
    if lost:
        skipped["an end without a beginning"] = lost
    found = np.array(spans, dtype=np.int64).reshape(-1, 4)
    for column, values in zip(("start", "duration", "name", "track"), found.T, strict=True):
        arrays[column] = np.concatenate([arrays[column], values.astype(arrays[column].dtype)])
    for column, missing in (("shape", -1), ("external", 0)):
        filler = np.full(len(found), missing, dtype=arrays[column].dtype)
        arrays[column] = np.concatenate([arrays[column], filler])
    return (
        [f"{unfinished:,} spans had begun and not ended; they are taken to end with the trace"] if unfinished else []
    )


def _paired(arrays: dict[str, NDArray[Any]], last: int) -> tuple[list[tuple[int, int, int, int]], int, int]:
    """Spans (start, duration, name, track), how many never ended, how many ends began nowhere."""
    order = np.argsort(arrays["mark_time"], kind="stable")
    rows = zip(*(arrays[f"mark_{name}"][order].tolist() for name in ("time", "name", "track", "end")), strict=True)
    open_marks: dict[int, list[tuple[int, int]]] = {}
    spans, lost = [], 0
    for time, name, track, is_end in rows:
        stack = open_marks.setdefault(track, [])
        if not is_end:
            stack.append((time, name))
        elif stack:
            start, begun = stack.pop()
            spans.append((start, time - start, begun, track))
        else:
            lost += 1
    left = [(start, last - start, name, track) for track, stack in open_marks.items() for start, name in stack]
    return spans + left, len(left), lost
