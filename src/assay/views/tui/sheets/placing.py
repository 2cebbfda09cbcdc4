"""The module tree of a document with runs folded, and the values of its modules as columns of its rows.

A shared module has a row at its first path, and further rows without values (aliases) at its other paths. A run of
equal siblings has the sum of its members.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from assay.analysis.uniques.canonical import canonical
from assay.document.document import Document
from assay.document.rows import Call
from assay.document.tree import ROOT, path_text, reading_order
from assay.views.tui import index as indexing
from assay.views.tui.columns import Numbers, Words, numbers, words
from assay.views.tui.index import Flags, Index, Ints
from assay.views.tui.sheet import run_path

MAX_DISTINCT = 62
"""The maximum number of distinct texts in `FoldedTree.sets`, one bit each."""


@dataclass(frozen=True)
class FoldedTree:
    """The module tree of a document with runs of equal siblings folded."""

    document: Document
    index: Index
    modules: Ints
    """The module index of each row; for a run, that of its first member."""
    is_alias: Flags
    """Which rows are further paths of a module that already has a row."""
    paths: Sequence[str]
    """The paths of the unfolded rows, by `index.origin`."""

    @cached_property
    def calls(self) -> dict[int, list[Call]]:
        """The calls of each module."""
        return calls_by_module(self.document)

    def path(self, row: int) -> str:
        """The full path of a row; that of a run has its first and last member."""
        own = self.paths[self.index.origin[row]]
        if not self.index.run[row]:
            return path_text(own)
        above = own.rpartition(".")[0].rpartition(".")[0]
        return f"{above}.{run_path(self.index, row)}" if above else run_path(self.index, row)

    def note(self, row: int) -> str:
        """The first path of an alias, or the names of the parameters that a module's own are tied to."""
        module = self.document.modules[self.modules[row]]
        if self.is_alias[row]:
            return f"= {path_text(module.path)}"
        prefix = f"{module.path}." if module.path else ""
        first_names = {prefix + name: self.document.tensors[at].names[0] for name, at in module.tensors.items()}
        tied = [first for name, first in first_names.items() if first != name]
        return f"(tied: {', '.join(tied)})" if tied else ""

    def figures(self, of_modules: Sequence[int | float | None]) -> Numbers:
        """The value of each row's module; for a run the sum, unknown if a member is unknown."""
        by_module = numbers(of_modules)
        figures = by_module.figures[self.modules]
        known = by_module.known[self.modules] & ~self.is_alias
        heads = self.index.run > 0
        members = np.flatnonzero((self.index.parent >= 0) & heads[self.index.parent])
        figures[heads], known[heads] = 0, True
        np.add.at(figures, self.index.parent[members], figures[members])
        np.logical_and.at(known, self.index.parent[members], known[members])
        return Numbers(figures, known)

    def sums(self, of_modules: Sequence[int | None]) -> Numbers:
        """The sum over each row's subtree; unknown if one of its modules is unknown."""
        own = numbers(of_modules)
        counts = (self.index.run == 0) & ~self.is_alias
        totals = self.index.totals(own.figures[self.modules] * counts)
        if own.known.all():
            return Numbers(totals, ~self.is_alias)
        unknown = (counts & ~own.known[self.modules]).astype(np.int64)
        return Numbers(totals, (self.index.totals(unknown) == 0) & ~self.is_alias)

    def texts(self, of_modules: Sequence[str | None]) -> Words:
        """The text of each row's module; for a run that of its first member."""
        by_module = words(of_modules)
        return Words(by_module.ids[self.modules], by_module.distinct)

    def sets(self, of_modules: Sequence[Sequence[str]], join: Callable[[list[str]], str]) -> Words:
        """The distinct texts in each row's subtree, joined by `join`."""
        distinct = sorted({text for each in of_modules for text in each})[:MAX_DISTINCT]
        masks = np.zeros(len(self.index), np.int64)
        for bit, text in enumerate(distinct):
            own = np.fromiter((text in each for each in of_modules), np.int64, len(of_modules))
            masks |= (self.index.totals(own[self.modules]) > 0).astype(np.int64) << bit
        kinds, ids = np.unique(masks, return_inverse=True)
        return Words(ids.astype(np.int64), [_joined(int(mask), distinct, join) for mask in kinds])


def folded_tree(document: Document) -> FoldedTree:
    """The module tree of `document` with runs folded."""
    modules, paths, parents, is_alias = _unfolded_rows(document)
    unfolded = indexing.build(parents, [path.rpartition(".")[2] or ROOT for path in paths])
    index = indexing.fold_runs(unfolded, _keys(document, modules, is_alias))
    of_row = np.asarray(modules, dtype=np.int64)[index.origin]
    return FoldedTree(document, index, of_row, np.asarray(is_alias, dtype=np.bool_)[index.origin], paths)


def shares(values: Numbers, whole: int | float | None) -> Numbers:
    """Each value divided by `whole`; all unknown if `whole` is zero or None."""
    if not whole:
        return Numbers(np.zeros(len(values.figures)), np.zeros(len(values.figures), np.bool_))
    return Numbers(values.figures / whole, values.known)


def calls_by_module(document: Document) -> dict[int, list[Call]]:
    """The calls of each module that was called."""
    calls: dict[int, list[Call]] = {}
    for call in document.calls:
        calls.setdefault(call.module, []).append(call)
    return calls


def _unfolded_rows(document: Document) -> tuple[list[int], list[str], list[int], list[bool]]:
    """Module, path, parent row and whether it is an alias, for each row of the unfolded tree in preorder."""
    rows = document.modules
    unordered = [(at, row.path, -1 if row.parent is None else row.parent, False) for at, row in enumerate(rows)]
    if any(row.aliases for row in rows):
        index_of = {row.path: at for at, row in enumerate(rows)}
        for at, row in enumerate(rows):
            above = [(alias, index_of.get(alias.rpartition(".")[0])) for alias in row.aliases]
            unordered += [(at, alias, parent, True) for alias, parent in above if parent is not None]
    order = reading_order([parent for _, _, parent, _ in unordered])
    new_row = {old: new for new, old in enumerate(order)}
    ordered = [unordered[old] for old in order]
    parents = [new_row.get(parent, -1) for _, _, parent, _ in ordered]
    return [at for at, *_ in ordered], [path for _, path, *_ in ordered], parents, [alias for *_, alias in ordered]


def _keys(document: Document, modules: list[int], is_alias: list[bool]) -> Ints:
    """A key for each unfolded row, equal for rows that may be folded: same class, settings, tensors and calls."""
    calls, tensors = calls_by_module(document), document.tensors
    ids: dict[object, int] = {}
    keys = np.zeros(len(modules), np.int64)
    for index, (at, alias) in enumerate(zip(modules, is_alias, strict=True)):
        row = document.modules[at]
        own = tuple((name, tensors[each].role, tensors[each].type) for name, each in row.tensors.items())
        signatures = tuple(dict.fromkeys((call.inputs, call.outputs) for call in calls.get(at, ())))
        config = canonical(row.config) if row.config else b""
        keys[index] = ids.setdefault((row.class_path, config, own, signatures, at if alias else -1), len(ids))
    return keys


def _joined(mask: int, distinct: list[str], join: Callable[[list[str]], str]) -> str | None:
    texts = [text for bit, text in enumerate(distinct) if mask >> bit & 1]
    return join(texts) if texts else None
