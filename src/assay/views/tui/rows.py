"""The visible rows of a tree, their order and the cursor: folding, filtering and sorting."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from assay.views.tui.index import Flags, Index, Ints


class Rows:
    """The visible rows. In tree order `shown` is ascending, so that folding is a bisection and a slice."""

    def __init__(self, index: Index, opened: Flags | None = None) -> None:
        self.index = index
        self.parents: Flags = index.has_children
        """Which rows have children."""
        self.opened: Flags = np.ones(len(index), np.bool_) if opened is None else opened.copy()
        self.shown: Ints = np.zeros(0, np.int64)
        self.cursor = 0
        """The position of the cursor in `shown`."""
        self.flat = False
        """Whether the rows are shown as a sorted list instead of a tree."""
        self.matches: Flags | None = None
        """Which rows match the search; None without a search."""
        self._kept: Flags | None = None
        """The matches and their ancestors."""
        self._opened_before: Flags | None = None
        """Which rows were expanded before the search."""
        self._show_tree()

    def __len__(self) -> int:
        return len(self.shown)

    @property
    def row(self) -> int:
        """The row under the cursor; -1 if no row is visible."""
        return int(self.shown[self.cursor]) if len(self.shown) else -1

    def move_to(self, position: int) -> None:
        """Move the cursor to a position, or to the nearest valid one."""
        self.cursor = max(0, min(position, len(self.shown) - 1))

    def position(self, row: int) -> int:
        """The position of `row` in `shown`; if it is hidden, that of the nearest visible row above it."""
        if self.flat:
            positions = np.flatnonzero(self.shown == row)
            return int(positions[0]) if len(positions) else 0
        return max(0, int(np.searchsorted(self.shown, row, side="right")) - 1)

    def is_open(self, row: int) -> bool:
        """Whether the row is expanded; never in a sorted list."""
        return not self.flat and bool(self.parents[row] and self.opened[row])

    def can_open(self, row: int) -> bool:
        """Whether the row has children that can be expanded; never in a sorted list."""
        return not self.flat and bool(self.parents[row])

    def toggle(self, row: int) -> None:
        """Expand or collapse one row."""
        if not self.can_open(row):
            return
        at = int(np.searchsorted(self.shown, row))
        first, last = row + 1, int(self.index.end[row])
        self.opened[row] = not self.opened[row]
        after = int(np.searchsorted(self.shown, last))
        inner = self._visible(first, last) if self.opened[row] else self.shown[:0]
        current = self.row
        self.shown = np.concatenate([self.shown[: at + 1], inner, self.shown[after:]])
        self.cursor = self.position(current)

    def set_open(self, rows: Ints, value: bool) -> None:
        """Expand or collapse `rows`; if the cursor's row is hidden, the cursor moves to the nearest row above."""
        if self.flat:
            return
        self.opened[rows] = value
        self._show_tree()

    def reveal(self, row: int) -> None:
        """Expand the ancestors of `row` and put the cursor on it."""
        if not self.flat:
            self.opened[self.index.ancestors(row)] = True
            self._show_tree()
        self.cursor = self.position(row)

    def filter(self, matches: Flags | None) -> None:
        """Show only the matching rows and their ancestors, expanded; None restores the tree before the search."""
        current = self.row
        if matches is None:
            if self._opened_before is not None:
                self.opened = self._opened_before
            self.matches = self._kept = self._opened_before = None
            self._after_filter(current)
            return
        if self._opened_before is None:
            self._opened_before = self.opened
        self.opened = np.ones(len(self.index), np.bool_)
        self.matches = matches
        self._kept = self.index.totals(matches.astype(np.int64)) > 0
        self._after_filter(current)
        self._to_match(current)

    def sort(self, keys: NDArray[np.float64], *, descending: bool, limit: int | None = None) -> None:
        """Show the rows as a list sorted by `keys`, unknown ones last; runs are replaced by their members."""
        current = self.row
        rows = np.flatnonzero(self.index.run == 0)
        if self.matches is not None:
            rows = rows[self.matches[rows]]
        row_keys = keys[rows]
        ordered = np.argsort(-row_keys if descending else row_keys, kind="stable")
        self.shown = rows[ordered][:limit]
        self.flat = True
        self.cursor = self.position(current)

    def unsort(self) -> None:
        """Show the tree instead of the list."""
        current = self.row
        self.flat = False
        self._after_filter(current)
        if current >= 0 and self.position(current) < len(self) and int(self.shown[self.position(current)]) != current:
            self.reveal(current)

    def next_match(self, step: int) -> bool:
        """Move the cursor to the next match (the previous one if `step` is negative), wrapping around.

        Returns False if there are no matches.
        """
        if self.matches is None or not len(self.shown):
            return False
        positions = np.flatnonzero(self.matches[self.shown])
        if not len(positions):
            return False
        ahead = int(np.searchsorted(positions, self.cursor, side="right"))
        at = ahead if step > 0 else int(np.searchsorted(positions, self.cursor)) - 1
        self.cursor = int(positions[at % len(positions)])
        return True

    def _to_match(self, current: int) -> None:
        """Keep the cursor on `current` if it matches, otherwise move it to the next match."""
        if self.matches is None or (current >= 0 and self.matches[current]):
            return
        self.cursor -= 1
        self.next_match(1)

    def _after_filter(self, current: int) -> None:
        if self.flat and self.matches is not None:
            self.flat = False
        self._show_tree()
        if current >= 0:
            self.cursor = self.position(current)
            if self.matches is None and self.row != current:
                self.reveal(current)

    def _show_tree(self) -> None:
        current = self.row
        self.shown = self._visible(0, len(self.index))
        self.cursor = self.position(current) if current >= 0 else 0

    def _visible(self, first: int, last: int) -> Ints:
        """The rows from `first` to `last` that are not inside a collapsed row."""
        closed = first + np.flatnonzero(self.parents[first:last] & ~self.opened[first:last])
        if len(closed):
            # Collapsed rows may nest: a row is hidden if more collapsed subtrees have begun than ended.
            change = np.zeros(last - first + 1, np.int32)
            change[closed + 1 - first] += 1
            np.subtract.at(change, self.index.end[closed] - first, 1)
            visible = np.cumsum(change[:-1]) == 0
        else:
            visible = np.ones(last - first, np.bool_)
        if self._kept is not None:
            visible &= self._kept[first:last]
        rows: Ints = first + np.flatnonzero(visible)
        return rows
