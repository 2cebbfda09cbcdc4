"""The tabs of the explorer, in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from assay.views.tui.sheet import Sheet
from assay.views.tui.sheets.findings import findings_sheet
from assay.views.tui.sheets.modules import time_sheet, tree_sheet
from assay.views.tui.sheets.ops import ops_sheet
from assay.views.tui.sheets.tensors import parameters_sheet, tensor_tree_sheet
from assay.views.tui.sheets.uniques import unique_sheet
from assay.views.tui.subject import ExploredModel


class TabKind(NamedTuple):
    """The description of a tab, with the function that builds its sheet."""

    id: str
    title: str
    make: Callable[[ExploredModel], Sheet]


def _tree(subject: ExploredModel) -> Sheet:
    return tensor_tree_sheet(subject) if subject.tensors_in_tree else tree_sheet(subject)


TABS = (
    TabKind("tree", "Tree", _tree),
    TabKind("unique", "Unique", unique_sheet),
    TabKind("ops", "Ops", ops_sheet),
    TabKind("parameters", "Parameters", parameters_sheet),
    TabKind("time", "Time", time_sheet),
    TabKind("findings", "Findings", findings_sheet),
)
BY_ID = {tab.id: tab for tab in TABS}
