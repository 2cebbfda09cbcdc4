"""Where the modules of a document stand in a tree, and their figures as columns of its rows.

A module that is shared stands at its first path and again, without figures, at the others. A run of equal siblings
has the sum of its members.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from assay.analysis.uniques.canonical import canonical
from assay.document.document import Document
from assay.document.rows import Call
from assay.document.tree import ROOT, reading_order, shown
from assay.views.tui import index as indexing
from assay.views.tui.columns import Numbers, Words, numbers, words
from assay.views.tui.index import Flags, Index, Ints
from assay.views.tui.sheet import run_path

MOST_TOGETHER = 62
"""Distinct words of which a subtree's set can be told."""


@dataclass(frozen=True)
class FoldedTree:
    """The tree of a document's modules with runs folded."""

    document: Document
    index: Index
    modules: Ints
    """Of each row; of a run's first member for a run."""
    again: Flags
    """Rows of modules that stand elsewhere already."""
    paths: Sequence[str]
    """Of each place, by `index.origin`."""

    @cached_property
    def calls(self) -> dict[int, list[Call]]:
        """The calls of each module."""
        return calls_by_module(self.document)

    def path(self, row: int) -> str:
        """The full path of a row, a run's with its first and last member."""
        own = self.paths[self.index.origin[row]]
        if not self.index.run[row]:
            return shown(own)
        above = own.rpartition(".")[0].rpartition(".")[0]
        return f"{above}.{run_path(self.index, row)}" if above else run_path(self.index, row)

    def note(self, row: int) -> str:
        """Where the very same module stands already, or its parameters."""
        module = self.document.modules[self.modules[row]]
        if self.again[row]:
            return f"= {shown(module.path)}"
        prefix = f"{module.path}." if module.path else ""
        held = {prefix + name: self.document.tensors[at].names[0] for name, at in module.tensors.items()}
        tied = [first for name, first in held.items() if first != name]
        return f"(tied: {', '.join(tied)})" if tied else ""

    def figures(self, of_modules: Sequence[int | float | None]) -> Numbers:
        """One figure a row; of a run the sum, unknown where one of its members is."""
        known_by_module = numbers(of_modules)
        figures = known_by_module.figures[self.modules]
        known = known_by_module.known[self.modules] & ~self.again
        heads = self.index.run > 0
        members = np.flatnonzero((self.index.parent >= 0) & heads[self.index.parent])
        figures[heads], known[heads] = 0, True
        np.add.at(figures, self.index.parent[members], figures[members])
        np.logical_and.at(known, self.index.parent[members], known[members])
        return Numbers(figures, known)

    def sums(self, of_modules: Sequence[int | None]) -> Numbers:
        """The sum over each row's subtree; unknown where one of its parts is."""
        own = numbers(of_modules)
        real = (self.index.run == 0) & ~self.again
        totals = self.index.totals(own.figures[self.modules] * real)
        if own.known.all():
            return Numbers(totals, ~self.again)
        unknown = (real & ~own.known[self.modules]).astype(np.int64)
        return Numbers(totals, (self.index.totals(unknown) == 0) & ~self.again)

    def texts(self, of_modules: Sequence[str | None]) -> Words:
        """One text a row; of a run its first member's."""
        found = words(of_modules)
        return Words(found.ids[self.modules], found.distinct)

    def sets(self, of_modules: Sequence[Sequence[str]], join: Callable[[list[str]], str]) -> Words:
        """The distinct texts anywhere in each row's subtree, joined."""
        distinct = sorted({text for each in of_modules for text in each})[:MOST_TOGETHER]
        masks = np.zeros(len(self.index), np.int64)
        for bit, text in enumerate(distinct):
            own = np.fromiter((text in each for each in of_modules), np.int64, len(of_modules))
            masks |= (self.index.totals(own[self.modules]) > 0).astype(np.int64) << bit
        kinds, ids = np.unique(masks, return_inverse=True)
        return Words(ids.astype(np.int64), [_joined(int(mask), distinct, join) for mask in kinds])


def place(document: Document) -> FoldedTree:
    """The tree of `document`."""
    modules, paths, parents, again = _places(document)
    bare = indexing.build(parents, [path.rpartition(".")[2] or ROOT for path in paths])
    index = indexing.fold_runs(bare, _keys(document, modules, again))
    of_row = np.asarray(modules, dtype=np.int64)[index.origin]
    return FoldedTree(document, index, of_row, np.asarray(again, dtype=np.bool_)[index.origin], paths)


def shares(values: Numbers, whole: int | float | None) -> Numbers:
    """Each figure as a part of the whole."""
    if not whole:
        return Numbers(np.zeros(len(values.figures)), np.zeros(len(values.figures), np.bool_))
    return Numbers(values.figures / whole, values.known)


def calls_by_module(document: Document) -> dict[int, list[Call]]:
    """The calls of each module that was called."""
    calls: dict[int, list[Call]] = {}
    for call in document.calls:
        calls.setdefault(call.module, []).append(call)
    return calls


def _places(document: Document) -> tuple[list[int], list[str], list[int], list[bool]]:
    """Of each place its module, path, parent place and whether the module stands elsewhere, in reading order."""
    rows = document.modules
    places = [(at, row.path, -1 if row.parent is None else row.parent, False) for at, row in enumerate(rows)]
    if any(row.aliases for row in rows):
        index_of = {row.path: at for at, row in enumerate(rows)}
        for at, row in enumerate(rows):
            above = [(alias, index_of.get(alias.rpartition(".")[0])) for alias in row.aliases]
            places += [(at, alias, parent, True) for alias, parent in above if parent is not None]
    order = reading_order([parent for _, _, parent, _ in places])
    where = {old: new for new, old in enumerate(order)}
    ordered = [places[old] for old in order]
    parents = [where.get(parent, -1) for _, _, parent, _ in ordered]
    return [at for at, *_ in ordered], [path for _, path, *_ in ordered], parents, [again for *_, again in ordered]


def _keys(document: Document, modules: list[int], again: list[bool]) -> Ints:
    """A number for each place, equal where two siblings may be folded."""
    calls, tensors = calls_by_module(document), document.tensors
    seen: dict[object, int] = {}
    keys = np.zeros(len(modules), np.int64)
    for place, (at, twice) in enumerate(zip(modules, again, strict=True)):
        row = document.modules[at]
        own = tuple((name, tensors[each].role, tensors[each].type) for name, each in row.tensors.items())
        ways = tuple(dict.fromkeys((call.inputs, call.outputs) for call in calls.get(at, ())))
        config = canonical(row.config) if row.config else b""
        keys[place] = seen.setdefault((row.class_path, config, own, ways, at if twice else -1), len(seen))
    return keys


def _joined(mask: int, distinct: list[str], join: Callable[[list[str]], str]) -> str | None:
    chosen = [text for bit, text in enumerate(distinct) if mask >> bit & 1]
    return join(chosen) if chosen else None
