"""A measured machine as a device: its limits for the roofline, and its overhead per op."""

from __future__ import annotations

from assay.analysis.devices import GIB, Device
from assay.document.machine import MachineReport


def as_device(report: MachineReport) -> Device:
    """The measured machine as a device whose peaks and bandwidth are the limits it reached."""
    hardware = report.hardware
    bandwidth = max((limit.value for limit in report.bandwidth if limit.value is not None), default=None)
    return Device(
        name=f"this machine ({hardware.name})",
        memory_gib=(hardware.memory_bytes or 0) / GIB,
        bandwidth_gb_s=None if bandwidth is None else bandwidth / 1e9,
        tflops={limit.name: limit.value / 1e12 for limit in report.arithmetic if limit.value is not None},
        source=f"`assay machine` on {report.date}",
        note="; ".join(report.notes),
    )


def overhead_s(report: MachineReport) -> float | None:
    """The shortest time any op takes on the measured machine."""
    return min((limit.value for limit in report.overhead if limit.value is not None), default=None)
