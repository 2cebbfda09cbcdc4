"""Will it fit: what is needed beside what a device has, with a stated reserve."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from assay.analysis.devices import GIB, Device
from assay.document.provenance import Modelled

RESERVE_BYTES = GIB
"""For the driver's context and the libraries' kernels: 0.4 to 0.9 GiB is usual."""
RESERVE_SHARE = 0.01
"""For what firmware and error correction keep of the nominal size."""


class Fit(Struct, frozen=True, omit_defaults=True):
    """One device and what is needed on it."""

    device: str
    needed: int
    memory: int
    """All it has."""
    reserve: int
    """Kept back."""
    headroom: int
    """What is left, or, negative, what is missing."""
    fits: bool
    how: Modelled


def reserve(device: Device) -> int:
    """Bytes of a device that a model does not get."""
    return RESERVE_BYTES + round(device.memory_bytes * RESERVE_SHARE)


def budget(device: Device) -> int:
    """Bytes of a device that a model may take."""
    return max(device.memory_bytes - reserve(device), 0)


def fits(needed: int, devices: Iterable[Device]) -> list[Fit]:
    """The verdict for each device."""
    return [
        Fit(
            device=device.name,
            needed=needed,
            memory=device.memory_bytes,
            reserve=reserve(device),
            headroom=budget(device) - needed,
            fits=needed <= budget(device),
            how=Modelled(
                f"memory from {device.source}",
                ("1 GiB and 1 % kept back", "one device, no fragmentation, no workspaces"),
            ),
        )
        for device in devices
    ]
