"""Summarises repeated measurements as one figure: their median and spread."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from assay.document.machine import measured_figure
from assay.document.provenance import Figure


def median_figure(values: Sequence[float], by: str) -> Figure:
    """The median of `values` as a measured figure, with its spread; `by` names the method."""
    return measured_figure(statistics.median(values), by, repeats=len(values), spread=spread(values))


def spread(values: Sequence[float]) -> float | None:
    """Half the interquartile range; None for fewer than two values."""
    if len(values) < 2:
        return None
    quarters = statistics.quantiles(values, n=4, method="inclusive")
    return (quarters[2] - quarters[0]) / 2
