"""Achieved rates of ops: measured time compared with their FLOPs, their bytes and a device's limits."""

from __future__ import annotations

from msgspec import Struct

from assay.analysis.devices import Device
from assay.analysis.roofline import KindBound, roofline_of
from assay.document.document import Document
from assay.document.profile import KindTime

COMPUTE, MEMORY, OVERHEAD, NEITHER, UNKNOWN = "compute", "memory", "overhead", "neither", "unknown"
"""The bottleneck of an op; `neither` if it is far below both limits, so that a better kernel would help."""

_NEAR = 0.6
"""An op is compute-bound or memory-bound if it reaches at least this share of the limit."""
_DISPATCH = 1.5
"""An op is overhead-bound if it takes less than this many times as long as an empty op."""


class Achieved(Struct, frozen=True, omit_defaults=True):
    """Time and rates of one kind of op; the rates are those of its median execution."""

    kind: int
    name: str
    shapes: tuple[tuple[int, ...], ...]
    count: int
    time_s: float
    spread_s: float
    total_s: float
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


def achieved_rates(
    document: Document, device: Device | None = None, *, overhead_s: float | None = None
) -> list[Achieved]:
    """Every timed kind of op, longest total time first; without a device, bottlenecks are unknown."""
    profile, cost = document.profile, document.cost
    if profile is None or cost is None:
        return []
    roofs = {row.kind: row for row in roofline_of(document, device).kinds} if device is not None else {}
    all_kinds_s = sum(time.total_s for time in profile.kinds if time is not None)
    rows = []
    for index, time in enumerate(profile.kinds):
        if time is None:
            continue
        kind_cost, kind = cost.kinds[index], document.kinds[index]
        roof = roofs.get(index)
        roof_s = roof.seconds if roof is not None else None
        rows.append(
            Achieved(
                kind=index,
                name=kind.name,
                shapes=tuple(operand.type.shape for operand in kind.inputs),
                count=time.count,
                time_s=time.time_s,
                spread_s=time.spread_s,
                total_s=time.total_s,
                share=time.total_s / all_kinds_s if all_kinds_s else None,
                flops=kind_cost.flops,
                bytes=kind_cost.bytes,
                flops_per_s=_rate(kind_cost.flops, time.time_s),
                bytes_per_s=_rate(kind_cost.bytes, time.time_s),
                intensity=kind_cost.intensity,
                bound=_bound(time, roof, overhead_s),
                roof_s=roof_s,
                recoverable_s=None if roof_s is None else max(time.total_s - roof_s * time.count, 0.0),
            )
        )
    return sorted(rows, key=lambda row: -row.total_s)


def _bound(time: KindTime, roof: KindBound | None, overhead_s: float | None) -> str:
    if roof is None or roof.compute_s is None or roof.memory_s is None:
        return UNKNOWN
    if overhead_s is not None and time.time_s < _DISPATCH * overhead_s:
        return OVERHEAD
    if roof.compute_s >= max(roof.memory_s, _NEAR * time.time_s):
        return COMPUTE
    if roof.memory_s >= _NEAR * time.time_s:
        return MEMORY
    return NEITHER


def _rate(amount: int | None, seconds: float) -> float | None:
    return None if amount is None or seconds <= 0 else amount / seconds
