"""Which rows of a tree are on show, in which order, and where the cursor stands: folding, filtering, sorting."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from assay.views.tui.index import Flags, Index, Ints


class Rows:
    """The rows on show. In tree order they are sorted, so that folding is a bisection and a slice."""

    def __init__(self, index: Index, opened: Flags | None = None) -> None:
        self.index = index
        self.parents: Flags = index.has_children
        """Which rows can be opened."""
        self.opened: Flags = np.ones(len(index), np.bool_) if opened is None else opened.copy()
        self.shown: Ints = np.zeros(0, np.int64)
        self.cursor = 0
        """A position in `shown`."""
        self.flat = False
        """Whether the rows are a sorted list rather than a tree."""
        self.matches: Flags | None = None
        self._kept: Flags | None = None
        self._opened_before: Flags | None = None
        self._show_tree()

    def __len__(self) -> int:
        return len(self.shown)

    @property
    def row(self) -> int:
        """The row under the cursor; -1 where nothing is on show."""
        return int(self.shown[self.cursor]) if len(self.shown) else -1

    def move_to(self, position: int) -> None:
        """Put the cursor there, or as near as there are rows."""
        self.cursor = max(0, min(position, len(self.shown) - 1))

    def position(self, row: int) -> int:
        """Where `row` is on show; the nearest row above it where it is not."""
        if self.flat:
            found = np.flatnonzero(self.shown == row)
            return int(found[0]) if len(found) else 0
        return max(0, int(np.searchsorted(self.shown, row, side="right")) - 1)

    def is_open(self, row: int) -> bool:
        """Whether the rows below it are on show."""
        return not self.flat and bool(self.parents[row] and self.opened[row])

    def can_open(self, row: int) -> bool:
        """Whether it has rows below it that a tree would show."""
        return not self.flat and bool(self.parents[row])

    def toggle(self, row: int) -> None:
        """Open or close one row."""
        if not self.can_open(row):
            return
        at = int(np.searchsorted(self.shown, row))
        first, last = row + 1, int(self.index.end[row])
        self.opened[row] = not self.opened[row]
        after = int(np.searchsorted(self.shown, last))
        inner = self._visible(first, last) if self.opened[row] else self.shown[:0]
        here = self.row
        self.shown = np.concatenate([self.shown[: at + 1], inner, self.shown[after:]])
        self.cursor = self.position(here)

    def set_open(self, rows: Ints, value: bool) -> None:
        """Open or close many rows at once; the cursor stays on its row or goes to the nearest above."""
        if self.flat:
            return
        self.opened[rows] = value
        self._show_tree()

    def reveal(self, row: int) -> None:
        """Open what is above `row` and put the cursor on it."""
        if not self.flat:
            self.opened[self.index.ancestors(row)] = True
            self._show_tree()
        self.cursor = self.position(row)

    def filter(self, matches: Flags | None) -> None:
        """Show matching rows and what is above them, whatever is folded; None shows everything as it was."""
        here = self.row
        if matches is None:
            if self._opened_before is not None:
                self.opened = self._opened_before
            self.matches = self._kept = self._opened_before = None
            self._after_filter(here)
            return
        if self._opened_before is None:
            self._opened_before = self.opened
        self.opened = np.ones(len(self.index), np.bool_)
        self.matches = matches
        self._kept = self.index.totals(matches.astype(np.int64)) > 0
        self._after_filter(here)
        self._to_match(here)

    def sort(self, keys: NDArray[np.float64], *, descending: bool, most: int | None = None) -> None:
        """Show the rows as a list by `keys`, unknown ones last; runs are left out, their members are there."""
        here = self.row
        rows = np.flatnonzero(self.index.run == 0)
        if self.matches is not None:
            rows = rows[self.matches[rows]]
        chosen = keys[rows]
        ordered = np.argsort(-chosen if descending else chosen, kind="stable")
        self.shown = rows[ordered][:most]
        self.flat = True
        self.cursor = self.position(here)

    def unsort(self) -> None:
        """Show the tree again."""
        here = self.row
        self.flat = False
        self._after_filter(here)
        if here >= 0 and self.position(here) < len(self) and int(self.shown[self.position(here)]) != here:
            self.reveal(here)

    def next_match(self, step: int) -> bool:
        """Put the cursor on the next match in that direction, around the end; False where there is none."""
        if self.matches is None or not len(self.shown):
            return False
        places = np.flatnonzero(self.matches[self.shown])
        if not len(places):
            return False
        ahead = int(np.searchsorted(places, self.cursor, side="right"))
        at = ahead if step > 0 else int(np.searchsorted(places, self.cursor)) - 1
        self.cursor = int(places[at % len(places)])
        return True

    def _to_match(self, here: int) -> None:
        """Leave the cursor on a match: the row it was on, else the first one after it."""
        if self.matches is None or (here >= 0 and self.matches[here]):
            return
        self.cursor -= 1
        self.next_match(1)

    def _after_filter(self, here: int) -> None:
        if self.flat and self.matches is not None:
            self.flat = False
        self._show_tree()
        if here >= 0:
            self.cursor = self.position(here)
            if self.matches is None and self.row != here:
                self.reveal(here)

    def _show_tree(self) -> None:
        here = self.row
        self.shown = self._visible(0, len(self.index))
        self.cursor = self.position(here) if here >= 0 else 0

    def _visible(self, first: int, last: int) -> Ints:
        """The rows of a slice that no closed row covers."""
        closed = first + np.flatnonzero(self.parents[first:last] & ~self.opened[first:last])
        if len(closed):
            # Closed rows may nest: a row is covered where more subtrees have begun than ended.
            change = np.zeros(last - first + 1, np.int32)
            change[closed + 1 - first] += 1
            np.subtract.at(change, self.index.end[closed] - first, 1)
            seen = np.cumsum(change[:-1]) == 0
        else:
            seen = np.ones(last - first, np.bool_)
        if self._kept is not None:
            seen &= self._kept[first:last]
        rows: Ints = first + np.flatnonzero(seen)
        return rows
