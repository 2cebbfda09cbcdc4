"""A measured machine as a device: its ceilings for the roofline, and the floor under small operations."""

from __future__ import annotations

from assay.analysis.devices import GIB, Device
from assay.document.machine import MachineReport


def as_device(report: MachineReport) -> Device:
    """The machine of `report` as a device, its ceilings as they were reached."""
    hardware = report.hardware
    bandwidth = max((one.value for one in report.bandwidth if one.value is not None), default=None)
    return Device(
        name=f"this machine ({hardware.name})",
        memory_gib=(hardware.memory_bytes or 0) / GIB,
        bandwidth_gb_s=None if bandwidth is None else bandwidth / 1e9,
        tflops={one.name: one.value / 1e12 for one in report.arithmetic if one.value is not None},
        source=f"`assay machine` on {report.date}",
        note="; ".join(report.notes),
    )


def overhead_s(report: MachineReport) -> float | None:
    """The least any operation takes here."""
    return min((one.value for one in report.overhead if one.value is not None), default=None)
