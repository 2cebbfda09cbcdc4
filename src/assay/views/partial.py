"""How views mark the results of a forward pass that stopped midway: in the title, at every total and in data."""

from __future__ import annotations

from assay import units
from assay.document.cost import Cost
from assay.document.document import Document
from assay.document.tree import path_text

PARTIAL = "partial"
"""The key in JSON and the column in CSV and JSON lines."""


def marked_title(title: str, document: Document) -> str:
    """`ResNet: one forward pass (partial: stopped in layer3.0)` for a pass that stopped, else `title`."""
    failure = document.run.failure
    if failure is None:
        return title
    where = f"partial: stopped in {path_text(failure.module)}"
    return f"{title} ({where})" if title else where.capitalize()


def marked_total(label: str, *, partial: bool) -> str:
    """`MACs (partial)` for a pass that stopped, else `label`."""
    return f"{label} ({PARTIAL})" if partial else label


def coverage_text(cost: Cost) -> str:
    """`100.0 % of ops counted`, or `partial` for a pass that stopped, whose number of ops is unknown."""
    return PARTIAL if cost.partial else f"{units.share(cost.coverage, 1)} of ops counted"
