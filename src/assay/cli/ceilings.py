"""Comparing a profile with the limits of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from assay.cli.stderr import Messages

if TYPE_CHECKING:
    from assay.analysis.achieved import Achieved
    from assay.document.document import Document
    from assay.document.machine import MachineReport


def achieved_rows(messages: Messages, document: Document) -> list[Achieved]:
    """One row per timed op, with its bottleneck if the limits of the machine it ran on have been measured."""
    from assay.api.brief import achieved_here
    from assay.machine.reports import report_of_this_machine

    rows = achieved_here(document)
    if rows and not note_limits(messages, document):
        reason = (
            "run `assay machine` once, or `assay machine --quick` (5 s)"
            if report_of_this_machine() is None
            else "it ran on another machine, whose limits are not known here"
        )
        messages.note(f"bottlenecks unknown: {reason}")
    return rows


def note_limits(messages: Messages, document: Document) -> bool:
    """Print why bottlenecks are approximate, if they are; whether the limits of the machine it ran on are known."""
    from assay.machine.limits import limits_of

    report = limits_of(document)
    for note in _limit_notes(report) if report is not None else ():
        messages.note(note)
    return report is not None


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
