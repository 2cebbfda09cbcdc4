"""The columns a row can show, which of them are visible, and their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from assay.views.tui.columns import SheetColumn, Words
from assay.views.tui.sheet import NAME, Sheet

NAME_CELLS = 24
"""The width of the name if it is not the first column."""


class Labels(Struct, frozen=True):
    """The saved order and visibility of the columns of one tab."""

    order: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()


@dataclass
class Component:
    """One column and whether it is visible."""

    column: SheetColumn
    on: bool


class Names:
    """The names of the rows as column values."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet

    def __getitem__(self, row: int) -> str:
        return self._sheet.label(row)

    def keys(self) -> NDArray[np.float64]:
        """The alphabetical ranks."""
        return Words(self._sheet.index.name_ids, self._sheet.index.names).keys()


def arranged(sheet: Sheet, saved: Labels | None = None) -> list[Component]:
    """All columns of `sheet` as saved; columns unknown to `saved` come last, with their defaults."""
    columns = [SheetColumn(NAME, sheet.noun, Names(sheet), "name of the row", cells=NAME_CELLS), *sheet.columns]
    if saved is None:
        return [Component(column, column.on) for column in columns]
    ranks = {id: rank for rank, id in enumerate(saved.order)}
    columns.sort(key=lambda column: ranks.get(column.id, len(ranks)))
    return [Component(column, column.id in saved.shown if column.id in ranks else column.on) for column in columns]


def labels(components: Sequence[Component]) -> Labels:
    """The order and visibility of the columns, for saving."""
    return Labels(
        tuple(each.column.id for each in components), tuple(each.column.id for each in components if each.on)
    )


def move(components: list[Component], at: int, step: int) -> int:
    """Move the column at `at` by `step`, and return its new position."""
    to = max(0, min(at + step, len(components) - 1))
    components.insert(to, components.pop(at))
    return to
