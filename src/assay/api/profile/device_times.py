"""Times of a pass on an accelerator: host, kernels and the gap between them, and whether launches limit it."""

from __future__ import annotations

from msgspec.structs import replace

from assay.api.profile import figures
from assay.api.profile.op_times import RecordedOps
from assay.document.machine import unknown_figure
from assay.document.provenance import Figure, Measured
from assay.document.timing import ModuleTime, Timing
from assay.timing.segments import Span

KERNELS = "kernel times in traced passes, lower quartile of each op"
_GAP = "pass time minus kernel time"
_COLUMNS = tuple(
    f"modules.{name}" for name in ("device_total_s", "device_self_s", "gap_s", "total_share", "self_share")
)
_LAUNCH_BOUND = 0.8
"""A pass is bound by launches if kernels take at most this share of it, and launching them at least this share."""


def with_device(timing: Timing, device: RecordedOps, whole: Figure, passes: int) -> Timing:
    """The timing of the host, completed by the kernel times of its ops; `whole` is the pass with its kernels."""
    kernels = device.whole()
    device_s = kernels.ns / 1e9
    gap = unknown_figure("the time of the pass is unknown")
    if whole.value is not None:
        gap = Figure(max(whole.value - device_s, 0.0), Measured(_GAP, passes))
    measured = Measured(KERNELS, passes)
    return replace(
        timing,
        modules=[_with_kernels(row, device, index, kernels) for index, row in enumerate(timing.modules)],
        whole=whole,
        host=timing.whole,
        device=figures.of_span(kernels, KERNELS, passes),
        gap=gap,
        launch_bound=_launch_bound(device_s, timing.whole.value, whole.value),
        columns={**timing.columns, **dict.fromkeys(_COLUMNS, measured)},
    )


def _with_kernels(row: ModuleTime | None, device: RecordedOps, index: int, kernels: Span) -> ModuleTime | None:
    if row is None:
        return None
    own, total = device.own(index), device.total(index).ns / 1e9
    own_s = own.ns / 1e9 if own is not None else 0.0
    return replace(
        row,
        total_share=1e9 * total / kernels.ns if kernels.ns else None,
        self_share=1e9 * own_s / kernels.ns if kernels.ns else None,
        device_total_s=total,
        device_self_s=own_s,
        gap_s=None if row.total_s is None else row.total_s - total,
    )


def _launch_bound(device_s: float, host_s: float | None, whole_s: float | None) -> bool | None:
    if not whole_s or host_s is None:
        return None
    return device_s <= _LAUNCH_BOUND * whole_s and host_s >= _LAUNCH_BOUND * whole_s
