"""How a pass over a checkpoint is to run, and what it tells while it does."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

Progress = Callable[[int, int], None]
"""Told the bytes that are done and those there are."""


class StatisticsSettings(Struct, frozen=True):
    """How the statistics are obtained."""

    engine: str = "threads"
    """`threads` or `ray`."""
    workers: int | None = None
    """None is one for each processor, up to a bound."""
    address: str | None = None
    """Of a Ray cluster; None starts one here."""
    spectral: bool = False
    sqnr_db: float | None = None
    """The ratio that `bits_needed` keeps; None is the usual one."""
