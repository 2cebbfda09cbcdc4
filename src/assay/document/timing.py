"""The time of each module of a document, as rows. Times are in seconds."""

from __future__ import annotations

from msgspec import Struct, field

from assay.document.provenance import Figure, Unknown


class ModuleTime(Struct, frozen=True, omit_defaults=True):
    """The time of one module in one pass: the median over passes, or its time in the pass of median duration."""

    calls: int
    """Number of calls in the pass."""
    total_s: float
    """Seconds in all its calls, including submodules; a call inside another call of the same module counts once."""
    self_s: float
    """Seconds without the time of its submodules."""
    spread_s: float | None = None
    """Half the interquartile range of `total_s` over passes, in seconds; null after a single pass."""
    device_total_s: float | None = None
    """Seconds on the accelerator, including submodules; null without an accelerator."""
    device_self_s: float | None = None
    """Seconds on the accelerator without submodules; null without an accelerator."""


class Timing(Struct, frozen=True, omit_defaults=True):
    """The measured times of one pass; the self times plus `outside` add up to `whole`."""

    modules: list[ModuleTime | None] = field(default_factory=list)
    """Times in the order of `Document.modules`; null for a module that was not called or not recorded."""
    whole: Figure = Figure(None, Unknown("not measured"))
    """Seconds of one pass."""
    outside: Figure = Figure(None, Unknown("not measured"))
    """Seconds of the pass outside any module."""
    overhead: Figure = Figure(None, Unknown("not measured"))
    """The time of a recorded pass divided by that of a pass without recording."""
