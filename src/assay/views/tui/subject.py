"""What is explored: a document, and who to ask for what a document does not hold."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from assay.document.document import Document
from assay.views.tui.inspectors import DocumentInspector, ModuleInspector


class ExploredModel(Struct, frozen=True):
    """A model to look at."""

    document: Document
    inspector: ModuleInspector
    devices: Sequence[str | None] = ()
    """Where each of the document's tensors is, in their order; empty where nobody knows."""
    tensors_in_tree: bool = False
    """Whether tensors are rows of the tree, as for a checkpoint."""
    notes: tuple[str, ...] = ()
    """Said once when the explorer opens."""
    no_findings: str = "no rules have run"
    """Why there are no findings, where there are none."""


def of_document(document: Document) -> ExploredModel:
    """A document alone."""
    return ExploredModel(document, DocumentInspector(document))
