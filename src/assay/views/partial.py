"""How views mark results that do not cover the whole model: the pass stopped midway, or modules did not run."""

from __future__ import annotations

from assay import units
from assay.analysis.modules_run import modules_run
from assay.document.cost import Cost
from assay.document.document import Document
from assay.document.tree import path_text

PARTIAL = "partial"
"""The key in JSON and the column in CSV and JSON lines."""


def marked_title(title: str, document: Document) -> str:
    """`ResNet: one forward pass (partial: stopped in layer3.0)`; `title` if the whole model ran."""
    mark = _mark(document)
    return f"{title} ({mark})" if title and mark else title or mark.capitalize()


def _mark(document: Document) -> str:
    """`partial: stopped in layer3.0`, `62.3 % of modules run`, or nothing if the whole model ran."""
    if document.failure is not None and document.failure.unread:
        return "partial: the code could not be read"
    if document.failure is not None:
        name = "" if document.partial else f"{document.stopped_pass} "
        return f"partial: {name}stopped in {path_text(document.failure.module)}"
    run = modules_run(document)
    return "" if run is None or run.ran == run.of else f"{units.floored_percent(run.share)} of modules run"


def marked_total(label: str, *, partial: bool) -> str:
    """`MACs (partial)` for a pass that stopped, else `label`."""
    return f"{label} ({PARTIAL})" if partial else label


def coverage_text(cost: Cost) -> str:
    """`100.0 % of ops counted`, or `partial` for a pass that stopped, whose number of ops is unknown."""
    return PARTIAL if cost.partial else f"{units.share(cost.coverage, 1)} of ops counted"
