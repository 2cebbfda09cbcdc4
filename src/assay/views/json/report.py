"""The JSON of `assay report`: the brief, the findings and what was tried; the document itself has every row."""

from __future__ import annotations

from msgspec import Struct

from assay.analysis.comparison import Comparison
from assay.document.document import Document, Machine, Origin, Run
from assay.document.findings import Finding
from assay.document.trials import TrialResult
from assay.findings.brief import Brief
from assay.findings.engine import Skipped
from assay.version import __version__


class ReportFile(Struct, frozen=True, omit_defaults=True):
    """What a person should know about one model."""

    assay: str
    """The version of Assay."""
    origin: Origin
    run: Run
    machine: Machine
    brief: Brief | None
    """What it is, what limits it, what to do next, what is wrong and what is unknown; null if nothing is known."""
    findings: list[Finding]
    """Most severe first, then by what they gain."""
    skipped: list[Skipped]
    """Rules that need data the document does not have."""
    trials: list[TrialResult]
    """Changes that were tried on copies of the model."""
    missing: dict[str, str]
    """Parts of the analysis that have no result, each with the reason."""
    partial: bool = False
    """Whether a requested pass stopped midway."""
    comparison: Comparison | None = None
    """How the model differs from the one it was compared with; absent if it was not compared."""


def report_file(
    document: Document,
    brief: Brief | None,
    findings: list[Finding],
    skipped: list[Skipped],
    missing: dict[str, str],
    comparison: Comparison | None,
) -> ReportFile:
    """The JSON of a report."""
    return ReportFile(
        assay=__version__,
        origin=document.origin,
        run=document.run,
        machine=document.machine,
        brief=brief,
        findings=findings,
        skipped=skipped,
        trials=document.trials,
        missing=missing,
        partial=document.stopped,
        comparison=comparison,
    )
