"""The interface of a gauge: the series it fills, and their current values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from assay.document.machine import Series

Readings = Sequence[float | None]


class Gauge(Protocol):
    """Reads one value per series in `series`; None if a value is not available."""

    series: Sequence[Series]
    problems: Sequence[str] = ()
    """The series it cannot read at all and why, one line each."""

    def read(self) -> Readings:
        """The current values, in the order of `series`."""

    def close(self) -> None:
        """Release its resources; most gauges have none."""
        return
