"""Previews of documents so large that deriving anything from all their rows would take seconds."""

from __future__ import annotations

from collections.abc import Sequence

from assay import units
from assay.api.display.costs import category_parts
from assay.api.display.preview import Preview, preview
from assay.document.document import Document
from assay.document.findings import Finding
from assay.document.provenance import Counted, Figure
from assay.findings.brief import BriefFigure, NotKnown, brief_of, largest_share
from assay.messages import plural

QUICK = 12_000
"""Rows from which a preview can be derived in a fraction of a second."""


def is_large(document: Document) -> bool:
    """Whether a preview should use only what the document states."""
    tensors = len(document.weights.tensors) if document.weights is not None else 0
    traced = sum(len(trace.layers) + len(trace.kernels) for trace in document.traces)
    return len(document.modules) + len(document.ops) + tensors + traced > QUICK


def of_large(document: Document, findings: Sequence[Finding]) -> Preview:
    """The sizes of the document, the totals that it states, and the given findings."""
    cost, profile = document.cost, document.profile
    macs = cost.forward.macs if cost is not None and cost.forward.known and document.recorded else None
    counts = {
        "module": len(document.modules),
        "tensor": len(document.weights.tensors) if document.weights is not None else len(document.tensors),
        "op": len(document.ops),
        "trace": len(document.traces),
    }
    identity = (
        document.model_class or document.origin.name or "document",
        *(plural(count, noun) for noun, count in counts.items() if count),
        f"{units.count(macs)} MACs" if macs is not None else "",
    )
    whole = cost.forward.flops if cost is not None else None
    figures = [BriefFigure("Time", profile.whole, "seconds", "per pass")] if profile is not None else []
    if cost is not None and whole is not None and document.recorded:
        shares = {name: (sums.flops or 0) / whole for name, sums in cost.categories.items()} if whole else {}
        figure = Figure(whole, Counted(cost.convention))
        figures.append(BriefFigure("Compute", figure, "count", "FLOPs per pass", largest_share(shares)))
    unknown = [] if findings else [NotKnown("memory and findings", "not computed for a preview of this size")]
    brief = brief_of(identity, figures, findings, unknown, partial=document.partial)
    return preview(brief, lambda: category_parts(cost) if cost is not None else ())
