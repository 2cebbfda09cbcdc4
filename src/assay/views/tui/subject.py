"""What is explored: a document, and who to ask for what a document does not hold."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from assay.document.document import Document
from assay.views.tui.evidence import DocumentEvidence, Evidence


class Subject(Struct, frozen=True):
    """A model to look at."""

    document: Document
    evidence: Evidence
    devices: Sequence[str | None] = ()
    """Where each of the document's tensors is, in their order; empty where nobody knows."""
    tensors_in_tree: bool = False
    """Whether tensors are rows of the tree, as for a checkpoint."""
    notes: tuple[str, ...] = ()
    """Said once when the explorer opens."""
    no_findings: str = "no rules have run"
    """Why there are no findings, where there are none."""


def of_document(document: Document) -> Subject:
    """A document alone."""
    return Subject(document, DocumentEvidence(document))
