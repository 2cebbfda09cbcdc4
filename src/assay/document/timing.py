"""The time of each module of a document, as rows. Times are in seconds."""

from __future__ import annotations

from msgspec import Struct, field

from assay.display import Displayed
from assay.document.provenance import Figure, Provenance, Unknown


class ModuleTime(Struct, frozen=True, omit_defaults=True):
    """The time of one module in one pass; times are null if the machine was too busy to measure them."""

    calls: int
    """Number of calls in the pass."""
    total_s: float | None
    """Seconds in all its calls, including submodules; a call inside another call of the same module counts once."""
    self_s: float | None
    """Seconds without the time of its submodules."""
    low_s: float | None = None
    """The lowest estimate of `total_s` in this run; null if there is only one."""
    high_s: float | None = None
    """The highest estimate of `total_s` in this run; null if there is only one."""
    total_share: float | None = None
    """`total_s` as a share of the pass; null if unknown."""
    self_share: float | None = None
    """`self_s` as a share of the pass; null if unknown."""
    device_total_s: float | None = None
    """Seconds on the accelerator, including submodules; null without an accelerator."""
    device_self_s: float | None = None
    """Seconds on the accelerator without submodules; null without an accelerator."""
    gap_s: float | None = None
    """Host seconds minus accelerator seconds, including submodules; if positive, it waits for launches."""


class PassMode(Struct, frozen=True, omit_defaults=True):
    """One of the speeds at which the same pass ran."""

    seconds: float
    """Median seconds of the passes at this speed."""
    passes: int
    """Number of passes at this speed."""


class Timing(Displayed, Struct, frozen=True, omit_defaults=True):
    """The measured times of one pass; the self times plus `outside` add up to `whole` (on an accelerator, `host`)."""

    modules: list[ModuleTime | None] = field(default_factory=list)
    """Times in the order of `Document.modules`; null for a module that was not called or not recorded."""
    whole: Figure = Figure(None, Unknown("not measured"))
    """Seconds of one pass without disturbances."""
    outside: Figure = Figure(None, Unknown("not measured"))
    """Seconds of the pass outside any module."""
    overhead: Figure = Figure(None, Unknown("not measured"))
    """The time of a recorded pass divided by that of a pass without recording."""
    as_run: Figure = Figure(None, Unknown("not measured"))
    """Seconds of one pass as it ran, disturbances included: the median."""
    modes: tuple[PassMode, ...] = ()
    """The speeds of the passes, fastest first, if there were two distinct ones; empty otherwise."""
    host: Figure = Figure(None, Unknown("not measured"))
    """Seconds until the model returned, with kernels possibly still running; unknown on a CPU."""
    device: Figure = Figure(None, Unknown("not measured"))
    """Seconds of all kernels of a pass together; unknown on a CPU."""
    gap: Figure = Figure(None, Unknown("not measured"))
    """Seconds of a pass in which the accelerator ran no kernel; unknown on a CPU."""
    launch_bound: bool | None = None
    """Whether the accelerator waits for the host to launch kernels; null on a CPU or if unknown."""
    columns: dict[str, Provenance] = field(default_factory=dict)
    """How bare numbers were obtained, by list and name: `modules.total_s`."""
