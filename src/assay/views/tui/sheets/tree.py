"""The first tab: the module tree."""

from __future__ import annotations

from assay import units
from assay.analysis.parameters import parameters
from assay.document.document import Document
from assay.document.tree import shown
from assay.views.tui.sheet import Sheet, first_open
from assay.views.tui.sheets.placing import place
from assay.views.tui.sheets.tree_columns import classes, tree_columns
from assay.views.tui.subject import ExploredModel

NO_MODULES = "No modules: nothing was watched and no tree was saved."


def tree_sheet(subject: ExploredModel) -> Sheet:
    """The module tree of `subject`, runs of equal siblings folded."""
    placed = place(subject.document)
    return Sheet(
        id="tree",
        title="Tree",
        index=placed.index,
        columns=tree_columns(subject, placed),
        modules=placed.modules,
        path=placed.path,
        paths=placed.paths,
        kinds=classes(placed),
        opened=first_open(placed.index),
        about=about(subject.document),
        empty=NO_MODULES,
        biggest="params_self",
        notes=placed.note,
    )


def about(document: Document) -> str:
    """The totals of a document on one line."""
    found = parameters(document)
    parts = [
        f"{len(document.modules):,} modules",
        f"{units.count(found.count)} parameters",
        units.size(found.bytes),
    ]
    if found.tied:
        parts.append(f"{len(found.tied)} tied, counted once")
    if found.buffers.bytes:
        parts.append(f"buffers {units.size(found.buffers.bytes)}")
    if document.cost is not None and document.ops:
        coverage = units.share(document.cost.coverage, 1)
        parts.append(f"{units.count(document.cost.forward.flops, 'FLOPs')} ({coverage} of ops counted)")
    if document.run.failure is not None:
        parts.append(f"forward stopped in {shown(document.run.failure.module)}")
    return " · ".join(parts)
