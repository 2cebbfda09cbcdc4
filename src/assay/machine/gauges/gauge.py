"""One thing a monitor reads: which series it fills, and their next values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from assay.document.machine import Series

Readings = Sequence[float | None]


class Gauge(Protocol):
    """Values for as many series as it announces; None is one that cannot be had."""

    series: Sequence[Series]
    problems: Sequence[str] = ()
    """What it cannot read at all, one line each."""

    def read(self) -> Readings:
        """The values of now."""

    def close(self) -> None:
        """Give back what it holds; most hold nothing."""
        return
