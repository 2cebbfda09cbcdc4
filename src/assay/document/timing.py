"""How long a document's modules took, as rows. Times are seconds."""

from __future__ import annotations

from msgspec import Struct, field

from assay.document.provenance import Figure, Unknown


class ModuleTime(Struct, frozen=True, omit_defaults=True):
    """One module's time in one pass; the median over passes."""

    calls: int
    """Calls in one pass."""
    total_s: float
    """Everything inside its calls; a call inside a call of the same module counts once."""
    self_s: float
    """Without what its submodules took."""
    spread_s: float | None = None
    """Half the interquartile range of `total_s` over passes."""
    device_total_s: float | None = None
    """The accelerator's time, where there is one."""
    device_self_s: float | None = None


class Timing(Struct, frozen=True, omit_defaults=True):
    """A pass as a clock saw it. Self times and `outside` add up to `whole`."""

    modules: list[ModuleTime | None] = field(default_factory=list)
    """In the order of `Document.modules`; None for one that was not called or not seen."""
    whole: Figure = Figure(None, Unknown("not measured"))
    """One pass, in seconds."""
    outside: Figure = Figure(None, Unknown("not measured"))
    """The part of it outside any module."""
    overhead: Figure = Figure(None, Unknown("not measured"))
    """The measuring pass over the bare one, as a ratio."""
