"""What a tab shows: a tree, its columns, and what the tree's rows are in the document."""

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
"""The component that carries the tree's lines."""


@dataclass(frozen=True)
class Sheet:
    """One tab's data. Nothing in it changes; what is folded and sorted is kept in `Rows`."""

    id: str
    index: Index
    columns: Sequence[SheetColumn]
    """Beside the name, in their first order."""
    modules: Ints
    """The module each row is about; -1 for none."""
    path: Callable[[int], str]
    """The full name of a row, for copying and lists."""
    paths: Sequence[str]
    """The full names of what the index was made from, by `index.origin`."""
    kinds: Words
    """What makes rows alike: the class of a module, as a rule."""
    opened: Flags
    """What is open at first."""
    noun: str = "name"
    """What a row is."""
    remembered_as: str = ""
    """The name its labels are remembered under, where that is not its id."""
    about: str = ""
    """One line of totals."""
    empty: str = ""
    """Why there are no rows, where there are none."""
    biggest: str = ""
    """The column that `the biggest` are chosen by."""
    sorted_by: str = ""
    """The column it is sorted by at first, largest first; empty for the tree."""
    tensor: Callable[[int], tuple[str, str] | None] = field(default=lambda row: None)
    """The module path and local name of a row that is a tensor."""
    notes: Callable[[int], str] = field(default=lambda row: "")
    """A word after a row's name: `= embed`, `tied`."""

    def name(self, row: int) -> str:
        """The row's name among its siblings; a run as `layers.0–31 ×32`."""
        run = int(self.index.run[row])
        if not run:
            return self.index.name(row)
        return f"{run_path(self.index, row)} ×{run}"

    def label(self, row: int, *, flat: bool = False) -> str:
        """The name with its note, fit for a terminal."""
        name = self.path(row) if flat else self.name(row)
        note = self.notes(row)
        return printable(f"{name} {note}" if note else name)

    def column(self, id: str) -> SheetColumn | None:
        """The column called `id`."""
        return next((column for column in self.columns if column.id == id), None)

    def record(self, row: int) -> dict[str, Any]:
        """Everything known of a row, raw."""
        return {"path": self.path(row), **{column.id: column.values[row] for column in self.columns}}


def run_path(index: Index, row: int) -> str:
    """A run by its parent and its first and last member: `layers.0–31`."""
    members = run_name(index.name(row), int(index.run[row]))
    above = int(index.parent[row])
    return members if above < 0 or index.name(above) == ROOT else f"{index.name(above)}.{members}"


def first_open(index: Index) -> Flags:
    """What is open at first: everything but runs of equal siblings and their members."""
    runs = index.run > 0
    members = (index.parent >= 0) & runs[index.parent]
    opened: Flags = ~(runs | members)
    return opened
