"""A report: titles and tables under one another, and the one table that stands for it in data formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.views import tables
from assay.views.tables import Table

Parts = list[str | Table]
"""Titles and tables, in reading order."""


@dataclass(frozen=True)
class Report:
    """What a person reads, and its data."""

    parts: Sequence[str | Table]
    data: Table
    """What CSV and JSON lines contain."""


def section(title: str, table: Table) -> Parts:
    """A title and its table; nothing where the table has no rows."""
    return [title, table] if table.rows else []


def whole(shown: Table | Report) -> Report:
    """A table alone as the report it is."""
    return shown if isinstance(shown, Report) else Report([shown], shown)


def as_text(report: Report, *, width: int | None = None, color: bool = False) -> str:
    """The report for people, fitted into `width`; titles stand right above what they name."""
    blocks = []
    for part in report.parts:
        if isinstance(part, str):
            line = tables.printable(part)
            blocks.append(f"{tables.bold(line) if color else line}\n")
        else:
            blocks.append(tables.as_text(part, width=width, color=color) + "\n")
    return "".join(blocks).removesuffix("\n\n") + "\n"


def as_markdown(report: Report) -> str:
    """The report as Markdown, titles as headings."""
    return "\n".join(
        f"## {tables.markdown_text(tables.printable(part))}\n" if isinstance(part, str) else tables.as_markdown(part)
        for part in report.parts
    )
