"""Trees of groups and members, for the tabs that do not show the module tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.views.tui import index as indexing
from assay.views.tui.columns import Numbers, SheetColumn, numbers, words
from assay.views.tui.sheet import Sheet


@dataclass
class Groups:
    """Rows of a tree in preorder, added one by one: a group before its members."""

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
        """Add a row and return its number; `values` are its column values by id."""
        self.names.append(name)
        self.parents.append(parent)
        self.modules.append(module)
        self.kinds.append(kind)
        self.values.append(values or {})
        return len(self.names) - 1

    def figures(self, name: str) -> Numbers:
        """The numbers that the rows have under `name`."""
        return numbers([values.get(name) for values in self.values])

    def number(
        self, id: str, title: str, about: str, show: Callable[[Any], str], *, on: bool = True, name: str = ""
    ) -> SheetColumn:
        """A column of the numbers that the rows have under `id`."""
        return SheetColumn(id, title, self.figures(id), about, show, right=True, on=on, name=name)

    def text(
        self,
        id: str,
        title: str,
        about: str,
        *,
        italic: bool = False,
        on: bool = True,
        widest: int = 32,
        name: str = "",
    ) -> SheetColumn:
        """A column of the texts that the rows have under `id`."""
        texts = words([values.get(id) for values in self.values])
        return SheetColumn(id, title, texts, about, italic=italic, on=on, widest=widest, name=name)


def grouped(
    groups: Groups,
    *,
    id: str,
    noun: str,
    columns: list[SheetColumn],
    depth: int,
    about: str,
    empty: str,
    biggest: str,
) -> Sheet:
    """The sheet of `groups`, expanded down to `depth`."""
    index = indexing.build(groups.parents, groups.names)
    return Sheet(
        id=id,
        noun=noun,
        index=index,
        columns=columns,
        modules=np.asarray(groups.modules, dtype=np.int64),
        path=groups.names.__getitem__,
        paths=groups.names,
        kinds=words(groups.kinds),
        opened=index.depth < depth,
        about=about,
        empty=empty,
        biggest=biggest,
    )
