"""`assay.brief`: what a person should know first about a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.analysis.achieved import Achieved, achieved_rates
from assay.analysis.ceilings import as_device, overhead_s
from assay.api.check import CheckReport
from assay.document.document import Document
from assay.document.findings import Finding
from assay.document.trace import Trace, TraceDiff
from assay.document.weights import WeightsReport
from assay.errors import UsageError
from assay.findings.analyzed import Analysis
from assay.findings.brief import Brief
from assay.findings.brief_any import checked_brief
from assay.findings.brief_trace import diff_brief, trace_brief, trace_findings
from assay.findings.engine import check_all
from assay.machine.limits import device_of, limits_of
from assay.views.text.brief_view import BriefView

Briefed = Document | CheckReport | Analysis | WeightsReport | Trace | TraceDiff
"""What a brief can be made of."""


def brief(result: Briefed) -> BriefView:
    """What a person should know first about `result`: what it is, what limits it, what to do, what is unknown.

    Args:
        result: What `assay.profile`, `assay.check`, `assay.analyze`, `assay.analyze_weights`, `assay.read_trace`,
            `assay.compare_traces` or `assay.load` returned.

    Returns:
        The brief: `print` it, display it in a notebook, or use its `data`.

    Raises:
        UsageError: There is nothing to report on.
    """
    made = _brief(result)
    if made is None:
        raise UsageError(
            f"cannot brief {type(result).__name__}: expected what assay.check, assay.profile, assay.analyze, "
            "assay.analyze_weights, assay.read_trace, assay.compare_traces or assay.load returned"
        )
    return BriefView(made)


def _brief(result: Briefed) -> Brief | None:
    if isinstance(result, TraceDiff):
        return diff_brief(result)
    if isinstance(result, Trace):
        return trace_brief(result, trace_findings([result]))
    if isinstance(result, WeightsReport):
        return _of_document(Document(weights=result))
    if isinstance(result, CheckReport):
        return _of_document(result.document, result.findings)
    if isinstance(result, Analysis):
        return _of_document(result.document, result.checked.findings, result.missing)
    return _of_document(result) if isinstance(result, Document) else None


def _of_document(
    document: Document, findings: Sequence[Finding] | None = None, missing: Mapping[str, str] | None = None
) -> Brief | None:
    device = device_of(document)
    found = check_all(document, device=device).findings if findings is None else findings
    return checked_brief(document, found, rows=achieved_here(document), missing=missing, device=device)


def achieved_here(document: Document) -> list[Achieved]:
    """One row per timed kind of op, with its bottleneck if the limits of the machine it ran on are known here."""
    if document.profile is None or document.timing is None:
        return []
    report = limits_of(document)
    if report is None:
        return achieved_rates(document)
    return achieved_rates(document, as_device(report), overhead_s=overhead_s(report))
