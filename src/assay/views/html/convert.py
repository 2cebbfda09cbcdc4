"""Parts of the text views as blocks of a page: titles, tables, facts and notes; the page draws its own pictures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from assay.views.html.columns import page_table
from assay.views.html.page import AnyBlock, Fact, FactsBlock, NotesBlock, TableBlock
from assay.views.tables import Table, printable
from assay.views.text.figures import FigureFact
from assay.views.text.report import Picture

_ACRONYMS = ("CPU", "GPU")
LINKS = {"op": "op", "tensor": "tensor", "code": "rule"}
"""What the text of a column names, by its title; modules may be folded into one name, to which no link can lead."""
STATES = {"severity": "severity", "bottleneck": "bound", "verdict": "verdict", "state": "change"}


def blocks_of(
    parts: Iterable[str | Table | Picture], prefix: str, links: Mapping[str, str] = LINKS
) -> list[AnyBlock]:
    """One block per table, under the title before it; titles without a table become notes. Pictures are left out."""
    blocks: list[AnyBlock] = []
    title = ""
    for part in parts:
        if isinstance(part, Picture):
            continue
        if isinstance(part, str):
            blocks += [NotesBlock(lines=[title])] if title else []
            title = _sentence(printable(part))
        elif part.rows or part.footer:
            blocks.append(block_of(part, f"{prefix}{len(blocks)}", title, links))
            title = ""
        else:
            title = ""
    return [*blocks, NotesBlock(lines=[title])] if title else blocks


def _sentence(title: str) -> str:
    """A title without the capitals of text reports: `Tensors: 2 changed` for `TENSORS: 2 changed`."""
    start, mark, rest = re.match(r"([^:,(]*)(.?)(.*)", title, re.DOTALL).groups()  # type: ignore[union-attr]
    return f"{start.capitalize()}{mark}{rest}" if start.isupper() and start not in _ACRONYMS else title


def block_of(table: Table, name: str, title: str = "", links: Mapping[str, str] = LINKS) -> AnyBlock:
    """A table as a block: facts or notes if it has no headings."""
    if not table.bare:
        return TableBlock(id=name, title=title, table=page_table(table, links, STATES))
    if len(table.columns) == 1:
        return NotesBlock(title=title, lines=[table.columns[0].text(row) for row in table.rows])
    return FactsBlock(title=title, rows=[_fact(table, row) for row in table.rows])


def _fact(table: Table, row: object) -> Fact:
    if isinstance(row, FigureFact):
        return Fact(row.name, row.value, *row.split)
    name, *rest = (column.text(row).strip() for column in table.columns)
    return Fact(name, " · ".join(filter(None, rest)))
