"""`compare_documents`: what changed from one document to another."""

from __future__ import annotations

from assay.analysis.comparison.conditions import condition_changes
from assay.analysis.comparison.findings import finding_changes
from assay.analysis.comparison.matching import Matching
from assay.analysis.comparison.modules import ModuleComparer
from assay.analysis.comparison.ops import op_changes
from assay.analysis.comparison.rows import ComparedDocument, Comparison
from assay.analysis.comparison.side import Side
from assay.analysis.comparison.tensors import TensorComparer
from assay.analysis.comparison.totals import total_changes
from assay.document.document import Document


def compare_documents(before: Document, after: Document) -> Comparison:
    """What changed from `before` to `after`, in time linear in their size; both stay as they are."""
    old, new = Side(before), Side(after)
    matching = Matching(old, new)
    modules = ModuleComparer(old, new, matching)
    renamed = {
        (one, two): modules.moved(one, two)
        for one, two in matching.after_of.items()
        if before.modules[one].path != after.modules[two].path
    }
    return Comparison(
        before=_named(before),
        after=_named(after),
        conditions=condition_changes(before, after),
        totals=total_changes(old, new),
        modules=modules.rows(),
        tensors=TensorComparer(before, after, renamed, matching.unmatched).rows(),
        ops=op_changes(before, after),
        findings=finding_changes(before, after, matching.before_of),
    )


def _named(document: Document) -> ComparedDocument:
    origin = document.origin
    return ComparedDocument(document.model_class or origin.name, origin.location, document.run.timestamp)
