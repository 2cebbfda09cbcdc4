"""Machine reports in the user's cache directory: one file per hardware key, written atomically."""

from __future__ import annotations

from pathlib import Path

import msgspec

from assay import atomic, host
from assay.document.machine import VERSION, MachineReport
from assay.machine.hardware import CPU, CUDA, identify
from assay.machine.sensors import nvml

REVISION = 3
"""Raise it if reports measure or word something differently: reports of other revisions are measured again."""


def directory() -> Path:
    """The directory for reports: `assay/machine` in the user's cache directory."""
    return host.cache_directory() / "machine"


def path_of(key: str) -> Path:
    """The file of the report for `key`."""
    return directory() / f"{key}-{REVISION}.json"


def load_report(key: str) -> MachineReport | None:
    """The stored report for `key`; None if it is missing, damaged or from another version."""
    try:
        report = msgspec.json.decode(path_of(key).read_bytes(), type=MachineReport)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, ValueError):
        return None
    return report if report.version == VERSION and report.hardware.key == key else None


def store_report(report: MachineReport) -> Path:
    """Store `report` for `load_report` and return its path; a quick report never replaces a full one."""
    path = path_of(report.hardware.key)
    stored = load_report(report.hardware.key) if report.quick else None
    if stored is not None and not stored.quick:
        return path
    atomic.make_directory(directory())
    atomic.write_bytes(path, msgspec.json.encode(report))
    return path


def report_of_this_machine(device: str | None = None) -> MachineReport | None:
    """The stored report of `device`; by default of the GPU, or of the CPU if there is no report of a GPU."""
    devices = [device] if device else [*([CUDA] if nvml.boards().may_exist else []), CPU]
    reports = (load_report(identify(each).key) for each in devices)
    return next((report for report in reports if report is not None), None)
