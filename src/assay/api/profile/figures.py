"""Figures computed from samples of time."""

from __future__ import annotations

from collections.abc import Sequence

from assay.document.machine import unknown_figure
from assay.document.provenance import Figure, Measured
from assay.machine.samples import median_figure
from assay.timing.segments import Span, low_quartile_of

CLOCK = "monotonic clock, lower quartile"
WITHOUT_WAITING = f"{CLOCK}, less the time spent waiting for a processor"
SEGMENTS = f"{CLOCK} of each segment between module calls and ops"
PROCESSOR_SEGMENTS = "CPU time of the thread, lower quartile of each segment between module calls and ops"
BACK_TO_BACK = "monotonic clock, passes back to back, median"
AS_RUN = "monotonic clock, median"
PROCESSOR = "CPU time of the process, lower quartile"


def of_span(span: Span, by: str, repeats: int) -> Figure:
    """A span as a figure in seconds, with the range over the run."""
    return Figure(span.ns / 1e9, Measured(by, repeats, range=range_s(span)))


def range_s(span: Span) -> tuple[float, float] | None:
    """The range of a span in seconds; None after a single measurement."""
    return None if span.low_ns is None or span.high_ns is None else (span.low_ns / 1e9, span.high_ns / 1e9)


def median_of(samples_ns: Sequence[float], by: str = AS_RUN) -> Figure:
    """The median of samples in nanoseconds, as a figure in seconds."""
    if not samples_ns:
        return unknown_figure("no pass was timed")
    return median_figure([sample / 1e9 for sample in samples_ns], by)


def ratio(parts: Sequence[float], wholes: Sequence[float], by: str = PROCESSOR) -> Figure:
    """The lower quartile of `parts` divided by that of `wholes`."""
    if not parts or not wholes:
        return unknown_figure("no pass was timed")
    whole = low_quartile_of(wholes).ns
    if not whole:
        return unknown_figure("the pass took no time")
    return Figure(low_quartile_of(parts).ns / whole, Measured(by, min(len(parts), len(wholes))))
