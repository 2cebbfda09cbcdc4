"""Folding of several rows: the rows each verb selects, and whether they are expanded or collapsed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from assay.views.tui.index import Flags, Ints
from assay.views.tui.rows import Rows
from assay.views.tui.sheet import Sheet


def _subtree(sheet: Sheet, row: int) -> Ints:
    return np.arange(row, sheet.index.end[row], dtype=np.int64)


def _everything(sheet: Sheet, row: int) -> Ints:
    return np.arange(len(sheet.index), dtype=np.int64)


def _siblings_deep(sheet: Sheet, row: int) -> Ints:
    parent = int(sheet.index.parent[row])
    return _everything(sheet, row) if parent < 0 else _subtree(sheet, parent)[1:]


def _same(sheet: Sheet, row: int) -> Ints:
    """Rows of the same class; for a run of siblings, only other runs."""
    alike: Flags = sheet.kinds.ids == sheet.kinds.ids[row]
    return np.flatnonzero(alike & ((sheet.index.run > 0) == bool(sheet.index.run[row])))


def _same_deep(sheet: Sheet, row: int) -> Ints:
    tops = _same(sheet, row)
    change = np.zeros(len(sheet.index) + 1, np.int64)
    change[tops] += 1
    np.subtract.at(change, sheet.index.end[tops], 1)
    return np.flatnonzero(np.cumsum(change[:-1]) > 0)


VERBS: dict[str, Callable[[Sheet, int], Ints]] = {  # the rows that each verb folds, given the selected row
    "subtree": _subtree,
    "all": _everything,
    "siblings": lambda sheet, row: sheet.index.siblings(row),
    "siblings_deep": _siblings_deep,
    "same": _same,
    "same_deep": _same_deep,
}


def fold(sheet: Sheet, rows: Rows, verb: str) -> int:
    """Expand the rows of a verb, or collapse them if the first one is expanded; return their number."""
    row = rows.row
    if row < 0 or rows.flat:
        return 0
    targets = VERBS[verb](sheet, row)
    targets = targets[rows.parents[targets]]
    if not len(targets):
        return 0
    if verb == "all":
        opens = not bool(rows.opened[targets].all())
        # The root stays expanded: collapsing it would hide everything.
        targets = targets if opens else targets[targets > 0]
    else:
        leader = row if rows.parents[row] and row in targets else int(targets[0])
        opens = not bool(rows.opened[leader])
    rows.set_open(targets, opens)
    return len(targets)
