"""The tabs of the explorer, in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from assay.views.tui.sheet import Sheet
from assay.views.tui.subject import Subject


class TabKind(NamedTuple):
    """A tab before its sheet is made."""

    id: str
    title: str
    make: Callable[[Subject], Sheet]


def _tree(subject: Subject) -> Sheet:
    from assay.views.tui.sheets.tensors import tensor_tree_sheet
    from assay.views.tui.sheets.tree import tree_sheet

    return tensor_tree_sheet(subject) if subject.tensors_in_tree else tree_sheet(subject)


def _unique(subject: Subject) -> Sheet:
    from assay.views.tui.sheets.uniques import unique_sheet

    return unique_sheet(subject)


def _ops(subject: Subject) -> Sheet:
    from assay.views.tui.sheets.ops import ops_sheet

    return ops_sheet(subject)


def _parameters(subject: Subject) -> Sheet:
    from assay.views.tui.sheets.tensors import parameters_sheet

    return parameters_sheet(subject)


def _time(subject: Subject) -> Sheet:
    from assay.views.tui.sheets.times import time_sheet

    return time_sheet(subject)


def _findings(subject: Subject) -> Sheet:
    from assay.views.tui.sheets.findings import findings_sheet

    return findings_sheet(subject)


TABS = (
    TabKind("tree", "Tree", _tree),
    TabKind("unique", "Unique", _unique),
    TabKind("ops", "Ops", _ops),
    TabKind("parameters", "Parameters", _parameters),
    TabKind("time", "Time", _time),
    TabKind("findings", "Findings", _findings),
)
BY_ID = {tab.id: tab for tab in TABS}
