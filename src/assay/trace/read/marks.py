"""Joins begin and end events into spans like those of complete events."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.messages import plural


def joined_marks(arrays: dict[str, NDArray[Any]], skipped: dict[str, int]) -> list[str]:
    """Add a span to the columns for every pair of begin and end marks; return notes about unpaired marks."""
    count = len(arrays["mark_time"])
    if not count:
        return []
    last = int(max(arrays["mark_time"].max(), (arrays["start"] + arrays["duration"]).max(initial=0)))
    spans, unfinished, lost = _paired(arrays, last)
    if lost:
        skipped["an end without a beginning"] = lost
    joined = np.array(spans, dtype=np.int64).reshape(-1, 4)
    for column, values in zip(("start", "duration", "name", "track"), joined.T, strict=True):
        arrays[column] = np.concatenate([arrays[column], values.astype(arrays[column].dtype)])
    for column, missing in (("shape", -1), ("external", 0)):
        filler = np.full(len(joined), missing, dtype=arrays[column].dtype)
        arrays[column] = np.concatenate([arrays[column], filler])
    return [f"{plural(unfinished, 'span')} without an end: assumed to end with the trace"] if unfinished else []


def _paired(arrays: dict[str, NDArray[Any]], last: int) -> tuple[list[tuple[int, int, int, int]], int, int]:
    """Spans (start, duration, name, track), the number of begins without an end, and of ends without a begin."""
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
