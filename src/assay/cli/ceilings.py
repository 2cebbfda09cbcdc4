"""Comparing a profile with the limits of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from assay.cli.stderr import Messages

if TYPE_CHECKING:
    from assay.analysis.achieved import Achieved
    from assay.analysis.devices import Device
    from assay.document.document import Document
    from assay.document.machine import MachineReport


def achieved_rows(messages: Messages, document: Document) -> tuple[list[Achieved], Device | None]:
    """One row per timed op, with its bottleneck, and the limits of this machine if they have been measured."""
    from assay.analysis.achieved import achieved_rates
    from assay.analysis.ceilings import as_device, overhead_s
    from assay.machine.reports import report_of_this_machine

    if document.profile is None or document.timing is None:
        return [], None
    report = report_of_this_machine(document.profile.device.partition(":")[0])
    if report is None:
        messages.note("bottlenecks unknown: run `assay machine` once, or `assay machine --quick` (5 s)")
        return achieved_rates(document), None
    for note in _limit_notes(report):
        messages.note(note)
    device = as_device(report)
    return achieved_rates(document, device, overhead_s=overhead_s(report)), device


def _limit_notes(report: MachineReport) -> Iterator[str]:
    """What a reader of the bottlenecks should know about the limits they are derived from."""
    from assay.machine.load import BUSY

    precisions = [limit.name for limit in report.arithmetic if limit.name in report.left_out]
    if precisions:
        yield f"limits of {', '.join(precisions)} not measured (quick measurement): run `assay machine`"
    if report.others is not None and report.others > BUSY:
        yield (
            "bottlenecks are approximate: the limits were measured while the machine was busy; run "
            "`assay machine --fresh` when it is idle"
        )
