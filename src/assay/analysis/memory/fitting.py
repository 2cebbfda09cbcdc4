"""Whether a model fits on a device: required memory compared with available memory, less a reserve."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from assay.analysis.devices import GIB, Device
from assay.analysis.memory.sharing import PeakParts, Target
from assay.document.provenance import Modelled

RESERVE_BYTES = GIB
"""Reserve for the driver's context and the libraries' kernels, which usually take 0.4 to 0.9 GiB."""
RESERVE_SHARE = 0.01
"""Share of the nominal size reserved for firmware and error correction."""


class Fit(Struct, frozen=True, omit_defaults=True):
    """Whether the required memory fits on a device, or on several that share the model; all bytes are per device."""

    device: str
    """Its name; `8xH100 SXM` for several devices."""
    needed: int
    memory: int
    """Total memory of the device in bytes."""
    reserve: int
    """Bytes not available to the model."""
    headroom: int
    """Bytes left over; negative if memory is missing."""
    fits: bool | None
    """Null if unknown: the bytes are only those before the pass stopped, which fit."""
    how: Modelled
    count: int = 1
    """The number of devices."""
    parallelism: str = ""
    """How several devices share the model: `sharded` or `tensor-parallel`."""


def reserve(device: Device) -> int:
    """Bytes of a device that are not available to a model."""
    return RESERVE_BYTES + round(device.memory_bytes * RESERVE_SHARE)


def budget(device: Device) -> int:
    """Bytes of a device that are available to a model; negative if the device is smaller than its reserve."""
    return device.memory_bytes - reserve(device)


def fits(need: PeakParts, targets: Iterable[Target], *, partial: bool = False) -> list[Fit]:
    """Whether a model that needs `need`, or at least that if `partial`, fits on each target."""
    return [_fit(need, target, partial) for target in targets]


def _fit(need: PeakParts, target: Target, partial: bool) -> Fit:
    device, needed = target.device, target.needed(need)
    assumptions = (target.assumption(need), "1 GiB + 1 % reserved", "no fragmentation, no workspaces")
    return Fit(
        device=target.name,
        needed=needed,
        memory=device.memory_bytes,
        reserve=reserve(device),
        headroom=budget(device) - needed,
        fits=False if needed > budget(device) else None if partial else True,
        how=Modelled(f"memory from {device.source}", assumptions),
        count=target.count,
        parallelism=target.parallelism.name if target.parallelism else "",
    )
