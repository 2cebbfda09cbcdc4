"""Reports of this machine, kept in the user's cache directory: one file a key, written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import msgspec

from assay import atomic, host
from assay.document.machine import VERSION, MachineReport
from assay.machine.hardware import CPU, CUDA, identify
from assay.machine.sensors import nvml


def directory() -> Path:
    """Where reports are kept: `assay/machine` in the user's cache directory."""
    return host.cache_directory() / "machine"


def kept(key: str) -> MachineReport | None:
    """The report of `key`; None where there is none, or it is broken or of another version."""
    try:
        report = msgspec.json.decode((directory() / f"{key}.json").read_bytes(), type=MachineReport)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, ValueError):
        return None
    return report if report.version == VERSION and report.hardware.key == key else None


def keep(report: MachineReport) -> Path:
    """Write `report` where `kept` finds it; its path."""
    atomic.make_directory(directory())
    path = directory() / f"{report.hardware.key}.json"
    atomic.write_bytes(path, msgspec.json.encode(report))
    return path


def of_this_machine(device: str | None = None) -> MachineReport | None:
    """The kept report of this machine: of its board where there is one, else of its processor."""
    devices = [device] if device else [*([CUDA] if nvml.boards().possible else []), CPU]
    reports = (kept(identify(each).key) for each in devices)
    return next((report for report in reports if report is not None), None)
