"""Settings of a run over a checkpoint, and its progress callback."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

Progress = Callable[[int, int], None]
"""Called with the number of bytes processed and the total."""


class StatisticsSettings(Struct, frozen=True):
    """How the statistics are computed."""

    engine: str = "threads"
    """`threads` or `ray`."""
    workers: int | None = None
    """None: one per processor, up to a limit."""
    address: str | None = None
    """Address of a Ray cluster; None starts a local one."""
    spectral: bool = False
    """Whether to compute the spectra of matrices."""
    sqnr_db: float | None = None
    """The signal-to-noise ratio that `bits_needed` must keep; None: the default."""
    spectral_elements: int | None = None
    """Limit for the elements of all matrices whose spectra are computed, smallest matrices first; None: no limit."""
