"""A tree table as HTML that collapses without scripts: nested tables, of which inner ones belong to a `<details>`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

_OPEN_DEPTH = 2
"""Number of levels that are expanded at first."""
_NARROW = 6
"""Columns that fit into a notebook; with more, the table scrolls sideways."""
_MAX_INDENT = 12
"""Deeper rows are not indented further, as in `tree.css`."""


class TreePart(NamedTuple):
    """A tree in preorder; the first cell of a row is its name."""

    headings: Sequence[str]
    rows: Sequence[tuple[int, Sequence[str]]]
    """The depth and the cells of each row."""


def tree_table(tree: TreePart) -> str:
    """The tree as nested tables with the same columns; all text is escaped here."""
    columns = f"<colgroup>{'<col>' * len(tree.headings)}</colgroup>"
    titles = "".join(f"<th>{escape(title)}</th>" for title in tree.headings)
    head = f"<table>{columns}<tr>{titles}</tr></table>"
    wide = " wide" if len(tree.headings) > _NARROW else ""
    return f"<div class='tree{wide}'>{head}<table>{columns}{''.join(_body(tree, columns))}</table></div>"


def _body(tree: TreePart, columns: str) -> Iterator[str]:
    """The rows; one with children is the `<summary>` of a `<details>` element in a row of its own."""
    close = "</table></details></td></tr>"
    open_depths: list[int] = []
    for index, (depth, cells) in enumerate(tree.rows):
        while open_depths and open_depths[-1] >= depth:
            open_depths.pop()
            yield close
        row = _row(depth, cells)
        if index + 1 < len(tree.rows) and tree.rows[index + 1][0] > depth:
            open_depths.append(depth)
            state = " open" if depth < _OPEN_DEPTH else ""
            yield (
                f"<tr><td class='in' colspan='{len(tree.headings)}'><details{state}>"
                f"<summary><table>{columns}{row}</table></summary><table>{columns}"
            )
        else:
            yield row
    yield close * len(open_depths)


def _row(depth: int, cells: Sequence[str]) -> str:
    name, *others = map(escape, cells)
    figures = "".join(f"<td>{cell}</td>" for cell in others)
    return f"<tr><td class='d{min(depth, _MAX_INDENT)}'>{name}</td>{figures}</tr>"
