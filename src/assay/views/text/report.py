"""A report: a sequence of titles and tables, and the one table that CSV and JSON lines contain."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from assay.views import tables
from assay.views.tables import Table

Parts = list[str | Table]
"""Titles and tables, in reading order."""


@dataclass(frozen=True)
class Report:
    """Titles and tables for text and Markdown, and one table for data formats."""

    parts: Sequence[str | Table]
    data: Table
    """The content of CSV and JSON lines."""


def section(title: str, table: Table) -> Parts:
    """A title and its table; nothing if the table has no rows."""
    return [title, table] if table.rows else []


def as_report(shown: Table | Report) -> Report:
    """A report unchanged, or a table as a report of its own."""
    return shown if isinstance(shown, Report) else Report([shown], shown)


def as_text(report: Report, *, width: int | None = None, color: bool = False) -> str:
    """The report as text, fitted to `width` characters, with a blank line after each table."""
    blocks = []
    for part in report.parts:
        if isinstance(part, str):
            line = tables.printable(part)
            line = textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False) if width else line
            blocks.append(f"{tables.bold(line) if color else line}\n")
        else:
            blocks.append(tables.as_text(part, width=width, color=color) + "\n")
    return "".join(blocks).removesuffix("\n\n") + "\n"


def as_markdown(report: Report) -> str:
    """The report as Markdown, with titles as headings."""
    return "\n".join(
        f"## {tables.markdown_text(tables.printable(part))}\n" if isinstance(part, str) else tables.as_markdown(part)
        for part in report.parts
    )
