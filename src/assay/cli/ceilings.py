"""Holding a profile against the ceilings of this machine, which are measured once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.cli.narration import Narrator

if TYPE_CHECKING:
    from assay.analysis.achieved import Achieved
    from assay.document.document import Document


def achieved_here(narrator: Narrator, document: Document) -> list[Achieved]:
    """Every timed operation with what bounds it, where this machine has been measured."""
    from assay.analysis.achieved import achieved
    from assay.analysis.ceilings import as_device, overhead_s
    from assay.machine.reports import of_this_machine

    if document.profile is None or document.timing is None:
        return []
    report = of_this_machine(document.profile.device.partition(":")[0])
    if report is None:
        narrator.note("what bounds an operation is unknown: `assay machine` measures this machine's ceilings once")
        return achieved(document)
    return achieved(document, as_device(report), overhead_s=overhead_s(report))
