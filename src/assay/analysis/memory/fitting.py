"""Whether a model fits on a device: required memory compared with available memory, less a reserve."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from assay.analysis.devices import GIB, Device
from assay.document.provenance import Modelled

RESERVE_BYTES = GIB
"""Reserve for the driver's context and the libraries' kernels, which usually take 0.4 to 0.9 GiB."""
RESERVE_SHARE = 0.01
"""Share of the nominal size reserved for firmware and error correction."""


class Fit(Struct, frozen=True, omit_defaults=True):
    """Whether the required memory fits on one device."""

    device: str
    needed: int
    memory: int
    """Total memory of the device in bytes."""
    reserve: int
    """Bytes not available to the model."""
    headroom: int
    """Bytes left over; negative if memory is missing."""
    fits: bool
    how: Modelled


def reserve(device: Device) -> int:
    """Bytes of a device that are not available to a model."""
    return RESERVE_BYTES + round(device.memory_bytes * RESERVE_SHARE)


def budget(device: Device) -> int:
    """Bytes of a device that are available to a model; negative if the device is smaller than its reserve."""
    return device.memory_bytes - reserve(device)


def fits(needed: int, devices: Iterable[Device]) -> list[Fit]:
    """Whether `needed` bytes fit on each device."""
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
                ("1 GiB + 1 % reserved", "one device, no fragmentation, no workspaces"),
            ),
        )
        for device in devices
    ]
