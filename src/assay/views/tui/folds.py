"""The verbs that fold many rows at once: which rows each is about, and whether it opens or closes them."""

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
    above = int(sheet.index.parent[row])
    return _everything(sheet, row) if above < 0 else _subtree(sheet, above)[1:]


def _same(sheet: Sheet, row: int) -> Ints:
    """Rows of the same class; runs only where the row is one, for a run is no module."""
    alike: Flags = sheet.kinds.ids == sheet.kinds.ids[row]
    return np.flatnonzero(alike & ((sheet.index.run > 0) == bool(sheet.index.run[row])))


def _same_deep(sheet: Sheet, row: int) -> Ints:
    tops = _same(sheet, row)
    change = np.zeros(len(sheet.index) + 1, np.int64)
    change[tops] += 1
    np.subtract.at(change, sheet.index.end[tops], 1)
    return np.flatnonzero(np.cumsum(change[:-1]) > 0)


VERBS: dict[str, Callable[[Sheet, int], Ints]] = {
    "subtree": _subtree,
    "all": _everything,
    "siblings": lambda sheet, row: sheet.index.siblings(row),
    "siblings_deep": _siblings_deep,
    "same": _same,
    "same_deep": _same_deep,
}


def fold(sheet: Sheet, rows: Rows, verb: str) -> int:
    """Open the rows of a verb, or close them where the first of them is open; how many it was about."""
    row = rows.row
    if row < 0 or rows.flat:
        return 0
    about = VERBS[verb](sheet, row)
    about = about[rows.parents[about]]
    if not len(about):
        return 0
    if verb == "all":
        opens = not bool(rows.opened[about].all())
        # A lone root that closes would leave nothing to look at.
        about = about if opens else about[about > 0]
    else:
        leader = row if rows.parents[row] and row in about else int(about[0])
        opens = not bool(rows.opened[leader])
    rows.set_open(about, opens)
    return len(about)
