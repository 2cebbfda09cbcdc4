"""What operations achieve: their measured time against their arithmetic, their bytes and a device's ceilings."""

from __future__ import annotations

from msgspec import Struct

from assay.analysis.devices import Device
from assay.analysis.roofline import KindBound, bound
from assay.document.document import Document
from assay.document.profile import KindTime

COMPUTE, MEMORY, OVERHEAD, NEITHER, UNKNOWN = "compute", "memory", "overhead", "neither", "unknown"
"""What holds an operation back; `neither` where it is far from every ceiling, so that a better kernel would help."""

_NEAR = 0.6
"""The share of a ceiling from which on an operation counts as bound by it."""
_DISPATCH = 1.5
"""Up to this many times the cost of an empty operation, an operation is overhead."""


class Achieved(Struct, frozen=True, omit_defaults=True):
    """One kind of operation; rates are of its median execution."""

    kind: int
    name: str
    shapes: tuple[tuple[int, ...], ...]
    count: int
    time_s: float
    spread_s: float
    total_s: float
    share: float | None
    """Of all operations' time."""
    flops: int | None
    bytes: int | None
    flops_per_s: float | None
    bytes_per_s: float | None
    intensity: float | None
    bound: str
    """One of the five words above."""
    roof_s: float | None = None
    """The least one execution could take on the device."""
    recoverable_s: float | None = None
    """What all executions take beyond that."""


def achieved(document: Document, device: Device | None = None, *, overhead_s: float | None = None) -> list[Achieved]:
    """Every timed kind, the one that takes longest first; without a device no kind has a ceiling."""
    profile, cost = document.profile, document.cost
    if profile is None or cost is None:
        return []
    roofs = {row.kind: row for row in bound(document, device).kinds} if device is not None else {}
    whole = sum(time.total_s for time in profile.kinds if time is not None)
    rows = []
    for index, time in enumerate(profile.kinds):
        if time is None:
            continue
        one, kind = cost.kinds[index], document.kinds[index]
        roof = roofs.get(index)
        least = roof.seconds if roof is not None else None
        rows.append(
            Achieved(
                kind=index,
                name=kind.name,
                shapes=tuple(operand.type.shape for operand in kind.inputs),
                count=time.count,
                time_s=time.time_s,
                spread_s=time.spread_s,
                total_s=time.total_s,
                share=time.total_s / whole if whole else None,
                flops=one.flops,
                bytes=one.bytes,
                flops_per_s=_rate(one.flops, time.time_s),
                bytes_per_s=_rate(one.bytes, time.time_s),
                intensity=one.intensity,
                bound=_bound(time, roof, overhead_s),
                roof_s=least,
                recoverable_s=None if least is None else max(time.total_s - least * time.count, 0.0),
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
