"""Label components: all that a row can say, which of it is on show and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from assay.views.tui.columns import SheetColumn, Words
from assay.views.tui.sheet import NAME, Sheet

NAME_CELLS = 24
"""Where the name is not the first component, it is a column like any other."""


class Labels(Struct, frozen=True):
    """What somebody has chosen for one tab."""

    order: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()


@dataclass
class Component:
    """One component and whether it is on show."""

    column: SheetColumn
    on: bool


class Names:
    """The names of rows as a column's values."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet

    def __getitem__(self, row: int) -> str:
        return self._sheet.label(row)

    def keys(self) -> NDArray[np.float64]:
        """The alphabetical ranks."""
        return Words(self._sheet.index.name_ids, self._sheet.index.names).keys()


def arranged(sheet: Sheet, chosen: Labels | None = None) -> list[Component]:
    """Every component of `sheet` in the order somebody chose; ones they never saw come last, as they are at first."""
    columns = [SheetColumn(NAME, sheet.noun, Names(sheet), "name of the row", cells=NAME_CELLS), *sheet.columns]
    if chosen is None:
        return [Component(column, column.on) for column in columns]
    place = {id: at for at, id in enumerate(chosen.order)}
    columns.sort(key=lambda column: place.get(column.id, len(place)))
    return [Component(column, column.id in chosen.shown if column.id in place else column.on) for column in columns]


def labels(components: Sequence[Component]) -> Labels:
    """What was chosen, to be remembered."""
    return Labels(
        tuple(each.column.id for each in components), tuple(each.column.id for each in components if each.on)
    )


def move(components: list[Component], at: int, step: int) -> int:
    """Move one component; where it is now."""
    to = max(0, min(at + step, len(components) - 1))
    components.insert(to, components.pop(at))
    return to
