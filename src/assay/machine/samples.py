"""Several measurements of one thing as one figure: the middle, and how far they spread."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from assay.document.machine import measured
from assay.document.provenance import Figure


def middle(values: Sequence[float], by: str) -> Figure:
    """The median with its spread."""
    return measured(statistics.median(values), by, repeats=len(values), spread=spread(values))


def spread(values: Sequence[float]) -> float | None:
    """Half the interquartile range; None of fewer than two."""
    if len(values) < 2:
        return None
    quarters = statistics.quantiles(values, n=4, method="inclusive")
    return (quarters[2] - quarters[0]) / 2
