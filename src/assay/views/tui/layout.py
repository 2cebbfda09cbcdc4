"""How a row is divided: the tree's cell, then as many columns as there is room for. Texts cut to cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len, set_cell_size

from assay.views.tui.columns import SheetColumn
from assay.views.tui.sheet import Sheet

GUTTER = 2
"""Cells before the tree, for the marker of rows of the same class."""
GAP = 2
LEAST_TREE = 16
MARKER = 2
"""Cells of the sign that a row is open or closed."""
INDENT = 2
WIDEST_RUN = 24
"""What a run's name adds to that of its first member, at most, as a rule."""


@dataclass(frozen=True)
class RowLayout:
    """Where everything is in a line."""

    tree: int
    """Cells of the tree's cell, without the gutter."""
    columns: tuple[tuple[int, SheetColumn], ...]
    """Each with the cell it begins at."""
    before: int
    """How many columns are further left."""
    after: int

    def column_at(self, x: int) -> SheetColumn | None:
        """The column under a cell."""
        return next((column for start, column in self.columns if start <= x < start + column.width), None)


def fit(columns: Sequence[SheetColumn], natural: int, width: int, shifted: int) -> RowLayout:
    """The columns from the one number `shifted` on that fit beside a tree of `natural` cells."""
    shifted = max(0, min(shifted, len(columns) - 1)) if columns else 0
    room = max(1, width - GUTTER)
    least = min(natural, max(LEAST_TREE, room // 3))
    if least + sum(GAP + column.width for column in columns[shifted:]) > room:
        # Not all will fit: leave room for the sign that says so.
        room = max(1, room - GAP)
    taken, shown = 0, []
    for column in columns[shifted:]:
        if least + taken + GAP + column.width > room:
            break
        taken += GAP + column.width
        shown.append(column)
    tree = max(1, min(natural, room - taken))
    places, at = [], GUTTER + tree
    for column in shown:
        places.append((at + GAP, column))
        at += GAP + column.width
    return RowLayout(tree, tuple(places), shifted, len(columns) - shifted - len(shown))


def natural_width(sheet: Sheet) -> int:
    """The cells that the tree's cell would like: the same wherever one scrolls to."""
    index = sheet.index
    if not len(index):
        return LEAST_TREE
    lengths = np.fromiter((min(cell_len(name), 80) for name in index.names), np.int64, len(index.names))
    taken = lengths[index.name_ids] + INDENT * index.depth
    longest = int(taken.max())
    runs = index.run > 0
    if runs.any():
        longest = max(longest, int(taken[runs].max()) + WIDEST_RUN)
    return max(LEAST_TREE, longest + MARKER)


def cut(text: str, width: int) -> str:
    """The text in no more than `width` cells."""
    if width <= 0:
        return ""
    if len(text) <= width and text.isascii():
        return text
    # A name can be absurdly long, and only its beginning can be seen.
    text = text[: width + 1]
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def cell(text: str, width: int, *, right: bool = False) -> str:
    """The text in exactly `width` cells."""
    text = cut(text, width)
    space = " " * (width - cell_len(text))
    return space + text if right else text + space
