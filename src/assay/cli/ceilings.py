"""Comparing a profile with the limits of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.cli.stderr import Messages

if TYPE_CHECKING:
    from assay.analysis.achieved import Achieved
    from assay.document.document import Document


def achieved_rows(messages: Messages, document: Document) -> list[Achieved]:
    """One row per timed op, with its bottleneck if the limits of this machine have been measured."""
    from assay.analysis.achieved import achieved_rates
    from assay.analysis.ceilings import as_device, overhead_s
    from assay.machine.reports import report_of_this_machine

    if document.profile is None or document.timing is None:
        return []
    report = report_of_this_machine(document.profile.device.partition(":")[0])
    if report is None:
        messages.note("bottlenecks unknown: run `assay machine` once (or `assay machine --quick`, at most 10 s)")
        return achieved_rates(document)
    precisions = [limit.name for limit in report.arithmetic if limit.name in report.left_out]
    if precisions:
        messages.note(f"limits of {', '.join(precisions)} not measured (quick measurement): run `assay machine`")
    return achieved_rates(document, as_device(report), overhead_s=overhead_s(report))
