"""The brief of any document that was checked: a model, a checkpoint or traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.analysis.achieved import Achieved
from assay.analysis.devices import Device
from assay.document.document import Document
from assay.document.findings import Finding
from assay.findings.brief import Brief
from assay.findings.brief_model import model_brief
from assay.findings.brief_trace import set_brief, trace_brief
from assay.findings.brief_weights import weights_brief
from assay.trace.read.across import trace_sets


def checked_brief(
    document: Document,
    findings: Sequence[Finding],
    *,
    rows: Sequence[Achieved] = (),
    missing: Mapping[str, str] | None = None,
    device: Device | None = None,
    source: str = "",
) -> Brief | None:
    """The brief of what the document holds; None if that is nothing to report on. Arguments as in `model_brief`."""
    if document.modules:
        return model_brief(document, findings, rows=rows, missing=missing, device=device, source=source)
    if document.weights is not None:
        return weights_brief(document, findings)
    if len(document.traces) == 1:
        return trace_brief(document.traces[0], findings)
    sets = trace_sets(document.traces)
    return set_brief(sets[0], document.traces, findings) if len(sets) == 1 else None
