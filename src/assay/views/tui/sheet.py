"""The data of a tab: a tree, its columns, and the modules its rows belong to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.analysis.folding import run_name
from assay.document.tree import ROOT
from assay.views.tables import printable
from assay.views.tui.columns import SheetColumn, Words
from assay.views.tui.index import Flags, Index, Ints

NAME = "name"
"""The id of the column with the name."""


@dataclass(frozen=True)
class Sheet:
    """The immutable data of one tab; folding and sorting are kept in `Rows`."""

    id: str
    index: Index
    columns: Sequence[SheetColumn]
    """The columns after the name, in their default order."""
    modules: Ints
    """The module index of each row; -1 for none."""
    path: Callable[[int], str]
    """The full path of a row, for copying and sorted lists."""
    paths: Sequence[str]
    """The full paths of the unfolded tree, by `index.origin`."""
    kinds: Words
    """The kind of each row, usually its class; rows of the same kind are highlighted and folded together."""
    opened: Flags
    """Which rows are expanded at first."""
    noun: str = "name"
    """The heading of the name column."""
    remembered_as: str = ""
    """The key of its labels in the settings, if it differs from the id."""
    about: str = ""
    """One line of totals for the status line."""
    empty: str = ""
    """The message if there are no rows."""
    biggest: str = ""
    """The column that determines the largest rows."""
    sorted_by: str = ""
    """The column of the default sort order, largest first; empty for the tree."""
    tensor: Callable[[int], tuple[str, str] | None] = field(default=lambda row: None)
    """The module path and local name of a row that is a tensor, otherwise None."""
    notes: Callable[[int], str] = field(default=lambda row: "")
    """A note after a row's name, such as `= embed`."""

    def name(self, row: int) -> str:
        """The local name of a row; a run reads `layers.0–31 ×32`."""
        run = int(self.index.run[row])
        if not run:
            return self.index.name(row)
        return f"{run_path(self.index, row)} ×{run}"

    def label(self, row: int, *, flat: bool = False) -> str:
        """The printable name with its note; the full path instead of the name if `flat`."""
        name = self.path(row) if flat else self.name(row)
        note = self.notes(row)
        return printable(f"{name} {note}" if note else name)

    def column(self, id: str) -> SheetColumn | None:
        """The column with this id, if any."""
        return next((column for column in self.columns if column.id == id), None)

    def record(self, row: int) -> dict[str, Any]:
        """The path and all raw values of a row."""
        return {"path": self.path(row), **{column.id: column.values[row] for column in self.columns}}


def run_path(index: Index, row: int) -> str:
    """The name of a run from its parent and its first and last member: `layers.0–31`."""
    members = run_name(index.name(row), int(index.run[row]))
    above = int(index.parent[row])
    return members if above < 0 or index.name(above) == ROOT else f"{index.name(above)}.{members}"


def first_open(index: Index) -> Flags:
    """The rows that are expanded at first: all except runs of equal siblings and their members."""
    runs = index.run > 0
    members = (index.parent >= 0) & runs[index.parent]
    opened: Flags = ~(runs | members)
    return opened
