"""A report: a sequence of titles and tables, and the one table that CSV and JSON lines contain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.messages import plural
from assay.views import tables
from assay.views.layout import DEFAULT, Style, lay_out, shortened
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


def as_text(report: Report, style: Style = DEFAULT) -> str:
    """The report as text, with a blank line after each table; a last line states which columns were hidden."""
    blocks, hidden = [], dict[str, None]()
    for part in report.parts:
        if isinstance(part, str):
            blocks += [f"{style.bold(line)}\n" for line in style.lines(tables.printable(part))]
        else:
            drawn = lay_out(part, style)
            hidden |= dict.fromkeys(drawn.hidden)
            blocks.append("".join(f"{line}\n" for line in drawn.lines) + "\n")
    if hidden and style.width:
        blocks.append(f"{style.dim(shortened(_hidden_text(list(hidden), style.width), style.width, 'end'))}\n\n")
    return "".join(blocks).removesuffix("\n\n") + "\n"


def _hidden_text(titles: list[str], width: int) -> str:
    """`2 columns hidden (low, high): --columns all, or a wider terminal`; without the names if they do not fit."""
    count, advice = f"{plural(len(titles), 'column')} hidden", "--columns all, or a wider terminal"
    named = f"{count} ({', '.join(titles)}): {advice}"
    return named if len(named) <= width else f"{count}: {advice}"


def as_markdown(report: Report) -> str:
    """The report as Markdown, with titles as headings."""
    return "\n".join(
        f"## {tables.markdown_text(tables.printable(part))}\n" if isinstance(part, str) else tables.as_markdown(part)
        for part in report.parts
    )
