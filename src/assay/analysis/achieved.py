"""Achieved rates of ops: measured time compared with their FLOPs, their bytes and a device's limits."""

from __future__ import annotations

from msgspec import Struct

from assay.analysis.devices import Device
from assay.analysis.roofline import KindBound, roofline_of
from assay.document.document import Document
from assay.document.profile import Profile

COMPUTE, MEMORY, OVERHEAD, NEITHER, UNKNOWN = "compute", "memory", "overhead", "neither", "unknown"
"""The bottleneck of an op; `neither` if it is far below both limits, so that a better kernel would help."""

_NEAR = 0.6
"""An op is compute-bound or memory-bound if it reaches at least this share of the limit."""
_DISPATCH = 1.5
"""An op is overhead-bound if it takes less than this many times as long as an empty op."""


class Achieved(Struct, frozen=True, omit_defaults=True):
    """Time and rates of one kind of op; times are null if the machine was too busy to measure them."""

    kind: int
    name: str
    shapes: tuple[tuple[int, ...], ...]
    count: int
    time_s: float | None
    """Seconds per execution: `total_s` divided by `count`."""
    low_s: float | None
    high_s: float | None
    """The range of `total_s` in this run."""
    total_s: float | None
    share: float | None
    """Its share of the total time of all ops."""
    flops: int | None
    bytes: int | None
    flops_per_s: float | None
    bytes_per_s: float | None
    intensity: float | None
    bound: str
    """`compute`, `memory`, `overhead`, `neither` or `unknown`."""
    roof_s: float | None = None
    """The shortest time one execution could take on the device."""
    recoverable_s: float | None = None
    """How much longer all executions took than `roof_s` allows."""
    efficiency: dict[int, float] = {}
    """Parallel efficiency by number of threads; empty if it was not measured."""

    @property
    def order(self) -> float:
        """Sorts rows by time, longest first; by share if times were withheld."""
        return -(self.total_s if self.total_s is not None else self.share or 0.0)


def achieved_rates(
    document: Document, device: Device | None = None, *, overhead_s: float | None = None
) -> list[Achieved]:
    """Every timed kind of op, longest total time first; without a device, bottlenecks are unknown.

    Rates, bottlenecks and recoverable times use the CPU time of single-threaded passes on a busy machine.
    """
    profile, cost = document.profile, document.cost
    if profile is None or cost is None:
        return []
    roofs = {row.kind: row for row in roofline_of(document, device).kinds} if device is not None else {}
    by = profile.conditions.rates if profile.conditions is not None else "time"
    rows = []
    for index, time in enumerate(profile.kinds):
        if time is None:
            continue
        kind_cost, kind = cost.kinds[index], document.kinds[index]
        roof = roofs.get(index)
        roof_s = roof.seconds if roof is not None else None
        total_s = {"time": time.total_s, "processor": time.processor_s}.get(by)
        each_s = None if total_s is None else total_s / time.count
        rows.append(
            Achieved(
                kind=index,
                name=kind.name,
                shapes=tuple(operand.type.shape for operand in kind.inputs),
                count=time.count,
                time_s=time.time_s,
                low_s=time.low_s,
                high_s=time.high_s,
                total_s=time.total_s,
                share=time.share,
                flops=kind_cost.flops,
                bytes=kind_cost.bytes,
                flops_per_s=_rate(kind_cost.flops, each_s),
                bytes_per_s=_rate(kind_cost.bytes, each_s),
                intensity=kind_cost.intensity,
                bound=_bound(each_s, roof, overhead_s),
                roof_s=roof_s,
                recoverable_s=None if roof_s is None or total_s is None else max(total_s - roof_s * time.count, 0.0),
                efficiency=_efficiency(profile, index),
            )
        )
    return sorted(rows, key=lambda row: row.order)


def _efficiency(profile: Profile, kind: int) -> dict[int, float]:
    known = {
        point.threads: point.kind_efficiency[kind]
        for point in profile.thread_points
        if kind < len(point.kind_efficiency)
    }
    return {threads: value for threads, value in known.items() if value is not None}


def _bound(seconds: float | None, roof: KindBound | None, overhead_s: float | None) -> str:
    if seconds is None or roof is None or roof.compute_s is None or roof.memory_s is None:
        return UNKNOWN
    if not (roof.compute_s or roof.memory_s) or (overhead_s is not None and seconds < _DISPATCH * overhead_s):
        return OVERHEAD
    if roof.compute_s >= max(roof.memory_s, _NEAR * seconds):
        return COMPUTE
    if roof.memory_s >= _NEAR * seconds:
        return MEMORY
    return NEITHER


def _rate(amount: int | None, seconds: float | None) -> float | None:
    return None if amount is None or not seconds else amount / seconds
