"""A report: a sequence of titles, tables and pictures, and the one table that CSV and JSON lines contain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from assay.messages import plural
from assay.views import tables
from assay.views.canvas import DEFAULT_WIDTH, MIN_WIDTH
from assay.views.cells import cell_len
from assay.views.layout import DEFAULT, Style, lay_out, shortened
from assay.views.tables import Table


@dataclass(frozen=True)
class Picture:
    """A picture, drawn when the style of the text is known."""

    caption: str
    """What the picture shows, stated as a conclusion."""
    draw: Callable[[Style], list[str]]
    """The lines of the picture, none wider than the style allows; its width is at least `MIN_WIDTH`."""


Parts = list[str | Table | Picture]
"""Titles, tables and pictures, in reading order."""


@dataclass(frozen=True)
class Report:
    """Titles, tables and pictures for text and Markdown, and one table for data formats."""

    parts: Sequence[str | Table | Picture]
    data: Table
    """The content of CSV and JSON lines."""


def section(title: str, table: Table) -> Parts:
    """A title and its table; nothing if the table has no rows."""
    return [title, table] if table.rows else []


def first_rows(title: str, table: Table, lines: int) -> tuple[str, Table]:
    """The title and the first `lines` rows of the table; the title gives both numbers if rows are omitted."""
    omitted = f" (first {lines} of {len(table.rows)})" if len(table.rows) > lines else ""
    return f"{title}{omitted}", table.first(lines)


def as_report(shown: Table | Report) -> Report:
    """A report unchanged, or a table as a report of its own."""
    return shown if isinstance(shown, Report) else Report([shown], shown)


def as_text(report: Report, style: Style = DEFAULT) -> str:
    """The report as text, with a blank line after each table; a last line states which columns were hidden."""
    lines, hidden = list[str](), dict[str, None]()  # joined once: a table may have 150,000 lines
    for part in report.parts:
        if isinstance(part, str):
            lines += _title(part, style)
        elif isinstance(part, Picture):
            lines += [*_title(part.caption, style), *_drawn(part, style), ""]
        else:
            laid_out = lay_out(part, style)
            hidden |= dict.fromkeys(laid_out.hidden)
            lines += laid_out.lines
            lines.append("")
    if hidden and style.width:
        text = _hidden_text([style.characters(title) for title in hidden], style)
        lines += [style.dim(shortened(text, style.width, "end")), ""]
    if len(lines) < 2 or lines[-1]:
        lines.append("")
    return "\n".join(lines)


def _title(text: str, style: Style) -> list[str]:
    return [style.bold(line) for line in style.lines(tables.printable(text))]


def _drawn(picture: Picture, style: Style) -> list[str]:
    """The lines of the picture, or one that says that it does not fit."""
    if style.width is None or style.width >= MIN_WIDTH:
        return picture.draw(style)
    return [style.dim(line) for line in style.lines(f"(picture left out: needs {MIN_WIDTH} columns)")]


def _hidden_text(titles: list[str], style: Style) -> str:
    """`2 columns hidden (low, high): --columns all, or a wider terminal`; as many names as fit."""
    count, advice = f"{plural(len(titles), 'column')} hidden", "--columns all, or a wider terminal"
    named = [f"{count} ({', '.join(titles)}): {advice}"]
    named += [f"{count} ({', '.join(titles[:shown])}, …): {advice}" for shown in range(len(titles) - 1, 0, -1)]
    texts = map(style.characters, named)
    return next((text for text in texts if cell_len(text) <= (style.width or 0)), f"{count}: {advice}")


def as_markdown(report: Report) -> str:
    """The report as Markdown, with titles as headings and pictures as code."""
    return "\n".join(map(_markdown, report.parts))


def _markdown(part: str | Table | Picture) -> str:
    if isinstance(part, Table):
        return tables.as_markdown(part)
    if isinstance(part, str):
        return f"## {tables.markdown_text(tables.printable(part))}\n"
    return "\n".join([_markdown(part.caption), "```text", *part.draw(Style(DEFAULT_WIDTH)), "```", ""])
