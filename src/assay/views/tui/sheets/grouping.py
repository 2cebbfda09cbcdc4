"""Trees of groups: rows with others below them, made by hand for tabs that are no module tree."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.views.tui import index as indexing
from assay.views.tui.columns import Numbers, SheetColumn, Words, numbers, words
from assay.views.tui.index import Flags, Index, Ints
from assay.views.tui.sheet import Sheet


@dataclass
class Groups:
    """Rows in reading order, added one by one: a group before its members."""

    names: list[str] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    modules: list[int] = field(default_factory=list)
    kinds: list[str | None] = field(default_factory=list)
    values: list[dict[str, Any]] = field(default_factory=list)

    def add(
        self,
        name: str,
        parent: int = -1,
        *,
        module: int = -1,
        kind: str | None = None,
        values: dict[str, Any] | None = None,
    ) -> int:
        """The number of the new row."""
        self.names.append(name)
        self.parents.append(parent)
        self.modules.append(module)
        self.kinds.append(kind)
        self.values.append(values or {})
        return len(self.names) - 1

    def index(self) -> Index:
        """The shape of it all."""
        return indexing.build(self.parents, self.names)

    def figures(self, name: str) -> Numbers:
        """One figure a row."""
        return numbers([values.get(name) for values in self.values])

    def texts(self, name: str) -> Words:
        """One text a row."""
        return words([values.get(name) for values in self.values])

    def modules_of_rows(self) -> Ints:
        """The module each row is about."""
        return np.asarray(self.modules, dtype=np.int64).reshape(-1)

    def kinds_of_rows(self) -> Words:
        """What makes rows alike."""
        return words(self.kinds)


def grouped(groups: Groups, *, id: str, title: str, noun: str, columns: list[SheetColumn], depth: int, about: str,
            empty: str, biggest: str) -> Sheet:  # fmt: skip
    """The tab that shows `groups`, open down to `depth`."""
    index = groups.index()
    return Sheet(
        id=id,
        title=title,
        noun=noun,
        index=index,
        columns=columns,
        modules=groups.modules_of_rows(),
        path=groups.names.__getitem__,
        paths=groups.names,
        kinds=groups.kinds_of_rows(),
        opened=open_down_to(index, depth),
        about=about,
        empty=empty,
        biggest=biggest,
    )


def open_down_to(index: Index, depth: int) -> Flags:
    """Rows above a depth open, all others closed."""
    opened: Flags = index.depth < depth
    return opened
