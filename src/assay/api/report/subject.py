"""What a report is about: a result of another function as it is, or a model that is analysed first."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from assay.analysis.comparison import compare_documents
from assay.api.analyze.run import INFERENCE, STRUCTURE, analysis_of
from assay.api.brief import achieved_here
from assay.api.check import CheckReport
from assay.api.options import OnProgress, RunOptions, unreported
from assay.api.profile.options import ProfileOptions
from assay.document.document import Document
from assay.document.trace import Trace
from assay.document.weights import WeightsReport
from assay.findings.analyzed import Analysis
from assay.findings.brief_any import checked_brief
from assay.findings.engine import CheckResult, check_all
from assay.machine.limits import device_of, limits_of
from assay.sources.open import open_source
from assay.views.html.subject import Subject

Reported = Document | CheckReport | Analysis
"""What a report is made of."""


def reported(
    model: Any, inputs: Any, options: RunOptions, seconds: float, on_progress: OnProgress = unreported
) -> Reported:
    """A result as it is; anything else is opened, and analysed if it is a model.

    Args:
        model: A result, or anything `open_source` accepts.
        inputs: What to call a model with; None to infer it.
        options: How a model is opened and run.
        seconds: Seconds to time a model; 0 to record it without timing.
        on_progress: Receives the progress of the analysis.
    """
    if isinstance(model, (Document, CheckReport, Analysis)):
        return model
    if isinstance(model, WeightsReport):
        return Document(weights=model)
    if isinstance(model, Trace):
        return Document(traces=[model])
    opened = open_source(model, model_args=options.model_args, trust=options.trust)
    if opened.traced is not None:
        return Document(origin=opened.origin, traces=opened.traced())
    if opened.document is not None and opened.stored is None:
        return opened.document
    runs = opened.document is None and opened.model_error is None and not opened.model.on_meta
    depth = INFERENCE if runs and seconds > 0 and not options.without_data else STRUCTURE
    measuring = ProfileOptions(seconds=seconds or 5.0, budget=4 * (seconds or 5.0), system=False, energy=None)
    return analysis_of(opened, inputs, depth, options, measuring, None, on_progress)


def subject_of(result: Reported, *, source: str = "", against: Reported | None = None, full: bool = False) -> Subject:
    """The subject of a report, compared with `against` if it is given."""
    document = _document(result)
    device = device_of(document)
    checked = _checked(result, document)
    missing = dict(result.missing) if isinstance(result, Analysis) else {}
    rows = achieved_here(document)
    return Subject(
        document=replace(document, findings=checked.findings),
        checked=checked,
        brief=checked_brief(document, checked.findings, rows=rows, missing=missing, device=device, source=source),
        rows=rows,
        device=device,
        limits=limits_of(document),
        source=source,
        missing=missing,
        comparison=None if against is None else compare_documents(_document(against), document),
        full=full,
    )


def _document(result: Reported) -> Document:
    return result if isinstance(result, Document) else result.document


def _checked(result: Reported, document: Document) -> CheckResult:
    """The findings of a result; those of a document that has none are looked for."""
    if not isinstance(result, Document):
        return result.checked
    checked = check_all(document, device=device_of(document))
    # Those that are stored may have been tried.
    return replace(checked, findings=document.findings) if document.findings else checked
