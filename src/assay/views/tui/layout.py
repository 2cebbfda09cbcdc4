"""The layout of a row: the tree, then as many columns as fit; and truncation of text to terminal cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len, set_cell_size

from assay.views.tui.columns import SheetColumn
from assay.views.tui.sheet import Sheet

GUTTER = 2
"""Cells before the tree, for the mark of rows of the same class."""
GAP = 2
MIN_TREE = 16
"""The minimum width of the tree."""
MARKER = 2
"""Cells of the mark of an expanded or collapsed row."""
INDENT = 2
RUN_SUFFIX = 24
"""Cells reserved for what a run's name adds to that of its first member."""


@dataclass(frozen=True)
class RowLayout:
    """The positions of the tree and the columns in a line."""

    tree: int
    """The width of the tree, without the gutter."""
    columns: tuple[tuple[int, SheetColumn], ...]
    """The visible columns, each with its first cell."""
    before: int
    """The number of columns hidden on the left."""
    after: int
    """The number of columns hidden on the right."""

    def column_at(self, x: int) -> SheetColumn | None:
        """The column at cell `x`, if any."""
        return next((column for start, column in self.columns if start <= x < start + column.width), None)


def fit(columns: Sequence[SheetColumn], natural: int, width: int, shifted: int) -> RowLayout:
    """The layout with the columns that fit, starting at number `shifted`; the tree gets at most `natural` cells."""
    shifted = max(0, min(shifted, len(columns) - 1)) if columns else 0
    available = max(1, width - GUTTER)
    min_tree = min(natural, max(MIN_TREE, available // 3))
    if min_tree + sum(GAP + column.width for column in columns[shifted:]) > available:
        # Not all columns fit: reserve space for the mark of hidden columns.
        available = max(1, available - GAP)
    used, shown = 0, []
    for column in columns[shifted:]:
        if min_tree + used + GAP + column.width > available:
            break
        used += GAP + column.width
        shown.append(column)
    tree = max(1, min(natural, available - used))
    positions, at = [], GUTTER + tree
    for column in shown:
        positions.append((at + GAP, column))
        at += GAP + column.width
    return RowLayout(tree, tuple(positions), shifted, len(columns) - shifted - len(shown))


def natural_width(sheet: Sheet) -> int:
    """The width at which the longest name of the tree fits, independent of the scroll position."""
    index = sheet.index
    if not len(index):
        return MIN_TREE
    lengths = np.fromiter((min(cell_len(name), 80) for name in index.names), np.int64, len(index.names))
    widths = lengths[index.name_ids] + INDENT * index.depth
    longest = int(widths.max())
    runs = index.run > 0
    if runs.any():
        longest = max(longest, int(widths[runs].max()) + RUN_SUFFIX)
    return max(MIN_TREE, longest + MARKER)


def cut(text: str, width: int) -> str:
    """The text in at most `width` cells, truncated with an ellipsis."""
    if width <= 0:
        return ""
    if len(text) <= width and text.isascii():
        return text
    # Measuring a very long name would be slow, and only its beginning is visible.
    text = text[: width + 1]
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def cell(text: str, width: int, *, right: bool = False) -> str:
    """The text padded or truncated to exactly `width` cells."""
    text = cut(text, width)
    space = " " * (width - cell_len(text))
    return space + text if right else text + space
