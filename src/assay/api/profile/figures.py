"""Figures computed from samples: the median, with half the interquartile range as its spread."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from assay.document.provenance import Figure, Measured, Unknown
from assay.machine.samples import median_figure

CLOCK = "monotonic clock"
BACK_TO_BACK = f"{CLOCK}, passes back to back"


def of_seconds(samples_ns: Sequence[int], by: str = CLOCK) -> Figure:
    """The median of samples in nanoseconds, as a figure in seconds."""
    if not samples_ns:
        return Figure(None, Unknown("no pass was timed"))
    return median_figure([sample / 1e9 for sample in samples_ns], by)


def ratio(parts: Sequence[float], wholes: Sequence[float]) -> Figure:
    """The median of `parts` divided by the median of `wholes`."""
    if not parts or not wholes or not median(wholes):
        return Figure(None, Unknown("no pass was timed"))
    return Figure(median(parts) / median(wholes), Measured(CLOCK, min(len(parts), len(wholes))))
