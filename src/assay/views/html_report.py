"""A report for notebooks: titles, lists of facts and tables as plain HTML. All text is escaped here."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from assay.views.html_tree import STYLE
from assay.views.tables import Table, printable

_PLAIN = ".assay table.plain{table-layout:auto;width:auto;min-width:0;margin:8px}"


def as_html(parts: Sequence[str | Table]) -> str:
    """The HTML of the titles and tables of a report."""
    return f'<div class="assay"><style>{STYLE}{_PLAIN}</style>{"".join(map(_part, parts))}</div>'


def _part(part: str | Table) -> str:
    if isinstance(part, str):
        return f"<strong>{escape(printable(part))}</strong>"
    return _facts(part) if part.bare else _table(part)


def _facts(table: Table) -> str:
    """A list of named facts; what follows the first two columns is separated by dots."""
    rows = [[column.text(row).strip() for column in table.columns] for row in (*table.rows, *table.footer)]
    pairs = (f"<dt>{escape(name)}</dt><dd>{escape(' · '.join(filter(None, rest)))}</dd>" for name, *rest in rows)
    return f"<dl>{''.join(pairs)}</dl>"


def _table(table: Table) -> str:
    titles = "".join(f"<th>{escape(column.title)}</th>" for column in table.columns)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(column.text(row))}</td>' for column in table.columns)}</tr>"
        for row in (*table.rows, *table.footer)
    )
    return f'<table class="plain"><tr>{titles}</tr>{rows}</table>'
