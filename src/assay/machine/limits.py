"""The measured limits of the machine on which a document was made."""

from __future__ import annotations

from assay.analysis.ceilings import as_device
from assay.analysis.devices import Device
from assay.document.document import Document
from assay.document.machine import MachineReport
from assay.machine.reports import report_of_this_machine


def device_of(document: Document) -> Device | None:
    """The device a document was made on, with its measured limits; None if they are unknown."""
    report = limits_of(document)
    return None if report is None else as_device(report)


def limits_of(document: Document) -> MachineReport | None:
    """The measured limits of the device a document was made on: stored in it, or of this machine if it is that."""
    if document.limits is not None:
        return document.limits
    kind = (document.profile.device if document.profile is not None else document.machine.device).partition(":")[0]
    report = report_of_this_machine(kind if kind not in ("", "none") else None)
    return report if report is not None and report.hardware.name == document.machine.processor else None
