"""A tree as flat arrays in preorder: parents before children, every subtree one slice.

All operations are vectorised, so that a million rows are indexed in the time a screen takes to draw.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_NUMBERED = re.compile(r"(?P<stem>.*?)(?P<number>0|[1-9][0-9]{0,17})", re.DOTALL)
_BASE = np.uint64(0x9E3779B97F4A7C15)
_INVERSE = np.uint64(pow(0x9E3779B97F4A7C15, -1, 1 << 64))


@dataclass(frozen=True)
class Index:
    """The shape of a tree. Row 0 is the first root; `subtree(row)` is `range(row, end[row])`."""

    parent: Ints
    """-1 for a root."""
    depth: Ints
    end: Ints
    """One past the last row of the subtree."""
    names: Sequence[str]
    """Distinct names."""
    name_ids: Ints
    run: Ints
    """For a row that folds a run of equal siblings, their number; 0 for all other rows."""
    origin: Ints
    """The row in the unfolded tree; for a run, that of its first member."""

    def __len__(self) -> int:
        return len(self.parent)

    def name(self, row: int) -> str:
        """The name of the row."""
        return self.names[int(self.name_ids[row])]

    @property
    def has_children(self) -> Flags:
        """Which rows have children."""
        rows: Ints = np.arange(len(self), dtype=np.int64)
        return self.end > rows + 1

    def ancestors(self, row: int) -> list[int]:
        """The ancestors of the row, nearest first."""
        ancestors = []
        above = int(self.parent[row])
        while above >= 0:
            ancestors.append(above)
            above = int(self.parent[above])
        return ancestors

    def siblings(self, row: int) -> Ints:
        """The rows with the same parent, itself included."""
        return np.flatnonzero(self.parent == self.parent[row])

    def totals(self, own: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each row the sum of `own` over its subtree."""
        before = np.concatenate([np.zeros(1, own.dtype), np.cumsum(own)])
        result: NDArray[np.int64] = before[self.end] - before[:-1]
        return result


def build(parents: Sequence[int] | Ints, names: Sequence[str]) -> Index:
    """The index of a tree in preorder; `parents` has -1 for roots."""
    parent = np.asarray(parents, dtype=np.int64)
    distinct: dict[str, int] = {}
    name_ids = np.fromiter((distinct.setdefault(name, len(distinct)) for name in names), np.int64, len(parent))
    rows: Ints = np.arange(len(parent), dtype=np.int64)
    return Index(
        parent, _depths(parent), _ends(parent), list(distinct), name_ids, np.zeros(len(parent), np.int64), rows
    )


def fold_runs(index: Index, keys: Ints) -> Index:
    """The tree with an added row above every run of equal siblings with consecutive numbers.

    Siblings are equal if their keys and subtrees are equal; inside the subtrees names must be equal too.
    """
    starts, members = _runs(*_continues(index, keys))
    if not len(starts):
        return index
    count = len(index)
    new_row: Ints = np.arange(count) + np.searchsorted(starts, np.arange(count), side="right")
    heads: Ints = new_row[starts] - 1
    parent = np.full(count + len(starts), -1, np.int64)
    inside = members >= 0
    above = np.where(index.parent >= 0, new_row[index.parent], -1)
    parent[new_row] = np.where(inside, heads[members], above)
    parent[heads] = above[starts]
    run = np.zeros(len(parent), np.int64)
    run[heads] = np.bincount(members[inside], minlength=len(starts))
    origin, name_ids = np.zeros(len(parent), np.int64), np.zeros(len(parent), np.int64)
    origin[new_row], origin[heads] = index.origin, index.origin[starts]
    name_ids[new_row], name_ids[heads] = index.name_ids, index.name_ids[starts]
    return Index(parent, _depths(parent), _ends(parent), index.names, name_ids, run, origin)


def _continues(index: Index, keys: Ints) -> tuple[Ints, Flags]:
    """The rows grouped by parent, and which of them continue a run: equal to the sibling before, next in number."""
    rows = np.argsort(index.parent, kind="stable")
    content = _contents(index, keys)[rows]
    stems, numbers = _numbered(index.names)
    stem, number = stems[index.name_ids[rows]], numbers[index.name_ids[rows]]
    same = np.zeros(len(rows), np.bool_)
    same[1:] = (
        (index.parent[rows[1:]] == index.parent[rows[:-1]])
        & (content[1:] == content[:-1])
        & (stem[1:] >= 0)
        & (stem[1:] == stem[:-1])
        & (number[1:] == number[:-1] + 1)
    )
    return rows, same


def _runs(rows: Ints, continues: Flags) -> tuple[Ints, Ints]:
    """The first row of each run, in order, and for each row the index of its run (-1 for none)."""
    group = np.cumsum(~continues) - 1
    lengths = np.bincount(group)
    firsts = rows[~continues]
    runs = np.flatnonzero(lengths > 1)
    runs = runs[np.argsort(firsts[runs])]
    number = np.full(len(lengths), -1, np.int64)
    number[runs] = np.arange(len(runs))
    members = np.full(len(rows), -1, np.int64)
    members[rows] = number[group]
    return firsts[runs], members


def _contents(index: Index, keys: Ints) -> NDArray[np.uint64]:
    """A hash for each row, equal if keys and subtrees are equal: a polynomial over the slice of its subtree."""
    rows = np.arange(len(index), dtype=np.int64)
    size = (index.end - rows).astype(np.uint64)
    own = _mixed(keys.astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F) + size)
    token = _mixed(own + index.name_ids.astype(np.uint64) * np.uint64(0x165667B19E3779F9))
    with np.errstate(over="ignore"):
        power = np.cumprod(np.full(len(index), _BASE))
        undo = np.concatenate([np.ones(1, np.uint64), np.cumprod(np.full(len(index), _INVERSE))])
        before = np.concatenate([np.zeros(1, np.uint64), np.cumsum(token * power, dtype=np.uint64)])
        inside = (before[index.end] - before[rows + 1]) * undo[rows + 1]
        return np.asarray(own + _mixed(inside))


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A bijective mix of the bits (splitmix64)."""
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(values ^ (values >> np.uint64(31)))


def _numbered(names: Sequence[str]) -> tuple[Ints, Ints]:
    """For each name the id of its stem and the number at its end; -1 for both if it does not end in a number."""
    stems: dict[str, int] = {}
    matches = [_NUMBERED.fullmatch(name) for name in names]
    stem = [-1 if match is None else stems.setdefault(match["stem"], len(stems)) for match in matches]
    number = [-1 if match is None else int(match["number"]) for match in matches]
    return np.asarray(stem, dtype=np.int64), np.asarray(number, dtype=np.int64)


def _depths(parent: Ints) -> Ints:
    depth = np.zeros(len(parent), np.int64)
    above = parent.copy()
    while (deeper := above >= 0).any():
        depth += deeper
        above = np.where(deeper, parent[above], -1)
    return depth


def _ends(parent: Ints) -> Ints:
    """One past the last row of each subtree, from subtree sizes summed from the deepest level up."""
    depth = _depths(parent)
    size = np.ones(len(parent), np.int64)
    for level in range(int(depth.max(initial=0)), 0, -1):
        at_level = np.flatnonzero(depth == level)
        size += np.bincount(parent[at_level], weights=size[at_level], minlength=len(parent)).astype(np.int64)
    rows: Ints = np.arange(len(parent), dtype=np.int64)
    return rows + size
