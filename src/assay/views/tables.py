"""Tables of row objects, in every format a table has: text, CSV, JSON lines, Markdown.

A column gets its raw value from a row and formats it. CSV and JSON contain the raw values.
"""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Generic, Literal, TypeVar

from assay import units

Row = TypeVar("Row")


def _as_text(value: object) -> str:
    return units.UNKNOWN if value is None else str(value)


@dataclass(frozen=True)
class Column(Generic[Row]):
    """One column: its heading, how to get its value from a row, and how the value is written."""

    title: str
    of: Callable[[Row], Any]
    align: Literal["left", "right"] = "left"
    show: Callable[[Any], str] = _as_text
    shrinks: bool = False
    """Whether it is folded where a terminal is narrow; the others keep their width."""
    drops: bool = False
    """Whether it is left out where a terminal is narrow, the rightmost first."""
    cuts: bool = False
    """Whether it is cut with an ellipsis instead of folded."""
    keeps: int = 0
    """How much wider than the others it stays when they are folded."""
    name: str = ""
    """The name in CSV and JSON, where that is not the title."""

    @property
    def key(self) -> str:
        """The name in CSV and JSON."""
        return self.name or self.title

    def value(self, row: Row | Mapping[str, Any]) -> Any:
        """The raw value; a mapping holds it under the column's key, or not at all."""
        return row.get(self.key) if isinstance(row, Mapping) else self.of(row)

    def text(self, row: Row | Mapping[str, Any]) -> str:
        """The value as it is written."""
        return printable(self.show(self.value(row)))


@dataclass(frozen=True)
class Table:
    """Columns and their rows: objects that the columns read, or mappings from the keys of columns to values."""

    columns: Sequence[Column[Any]]
    rows: Sequence[Any]
    footer: Sequence[Any] = ()
    """Rows that sum up the others; CSV and JSON leave them out."""
    bare: bool = False
    """Whether text omits the headings: one fact per row, named by the first column."""

    def values(self) -> list[dict[str, Any]]:
        """The raw values of every row by the keys of the columns."""
        return [{column.key: column.value(row) for column in self.columns} for row in self.rows]

    def first(self, count: int | None) -> Table:
        """The table cut to `count` rows, its footer kept; whole where that is None."""
        return replace(self, rows=self.rows[:count])

    def without_empty(self, *, unknown: tuple[Any, ...] = (None,)) -> Table:
        """The table without columns that hold nothing but `unknown` values; whole where it has no rows."""
        if not self.rows:
            return self
        known = [column for column in self.columns if any(column.value(row) not in unknown for row in self.rows)]
        return replace(self, columns=known)


def printable(text: str) -> str:
    """`text` with whatever a terminal could obey (escapes, line ends) written out."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def as_csv(table: Table) -> str:
    """The table as CSV with raw values, one line per row; an unknown is an empty field."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([column.key for column in table.columns])
    for row in table.rows:
        values = (column.value(row) for column in table.columns)
        writer.writerow([printable(value) if isinstance(value, str) else value for value in values])
    return buffer.getvalue()


def as_json_lines(table: Table) -> str:
    """One object per row, its keys the headings as names: `self FLOPs` is `self_flops`; an unknown is null."""
    import msgspec

    return msgspec.json.Encoder().encode_lines(_objects(table)).decode()


def as_json(table: Table) -> str:
    """The same objects as one list."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(_objects(table))).decode() + "\n"


def _objects(table: Table) -> list[dict[str, Any]]:
    return [{key.lower().replace(" ", "_"): value for key, value in row.items()} for row in table.values()]


def as_markdown(table: Table) -> str:
    """The table in the pipe form of Markdown."""
    marks = {"left": "---", "right": "---:"}
    lines = [
        [column.title for column in table.columns],
        [marks[column.align] for column in table.columns],
        *([markdown_text(cell) for cell in row] for row in _shown(table.columns, [*table.rows, *table.footer])),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def as_text(table: Table, *, width: int | None = None, color: bool = False) -> str:
    """The table for people, fitted into `width`; whole, one line a row, where that is None."""
    rows, footer = _shown(table.columns, table.rows), _shown(table.columns, table.footer)
    kept, widths = _fitted(table.columns, _natural_widths(table, rows + footer), width)
    columns = [table.columns[index] for index in kept]
    rule = "─" * _line_width(widths)

    def drawn(row: Sequence[str]) -> list[str]:
        return _lines([row[index] for index in kept], widths, columns)

    heading = [] if table.bare else drawn([column.title for column in table.columns])
    lines = [] if table.bare else [*(bold(line) if color else line for line in heading), rule]
    lines += [line for row in rows for line in drawn(row)]
    if footer:
        lines += [rule, *(line for row in footer for line in drawn(row))]
    return "".join(f"{line}\n" for line in lines)


def bold(line: str) -> str:
    """The line as a terminal shows it in bold."""
    return f"\x1b[1m{line}\x1b[0m"


_GAP = "  "
_COMFORTABLE = 24
"""A column that may be folded is content with this; below it, other columns are left out first."""
_LEAST = 8
"""No folded column gets narrower than this, however narrow the terminal."""


def markdown_text(text: str) -> str:
    """Text that Markdown takes literally and, in a table, keeps in its cell."""
    for special in "\\`*_{}[]<>|":
        text = text.replace(special, f"\\{special}")
    return text


def _shown(columns: Sequence[Column[Any]], rows: Sequence[Any]) -> list[list[str]]:
    return [[column.text(row) for column in columns] for row in rows]


def _natural_widths(table: Table, rows: list[list[str]]) -> list[int]:
    """How wide each column would like to be."""
    from rich.cells import cell_len

    headings = [""] * len(table.columns) if table.bare else [column.title for column in table.columns]
    return [max(map(cell_len, cells)) for cells in zip(headings, *rows, strict=True)]


def _fitted(columns: Sequence[Column[Any]], natural: list[int], width: int | None) -> tuple[list[int], list[int]]:
    """Which columns are drawn and how wide: first some are left out, then the widest are folded."""
    kept = list(range(len(columns)))
    if width is None:
        return kept, natural
    content = [
        min(wide, _COMFORTABLE) if column.shrinks else wide for column, wide in zip(columns, natural, strict=True)
    ]
    for index in reversed(kept.copy()):
        if columns[index].drops and _line_width([content[at] for at in kept]) > width:
            kept.remove(index)
    widths = [min(natural[index], width) if columns[index].shrinks else natural[index] for index in kept]
    while _line_width(widths) > width:
        shrinking = [at for at, index in enumerate(kept) if columns[index].shrinks and widths[at] > _LEAST]
        if not shrinking:
            break
        widths[max(shrinking, key=lambda at: widths[at] - columns[kept[at]].keeps)] -= 1
    return kept, widths


def _line_width(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _lines(cells: list[str], widths: list[int], columns: Sequence[Column[Any]]) -> list[str]:
    """The lines one row takes."""
    from rich.cells import cell_len

    folded = [
        _cut(cell, width) if column.cuts else _folded(cell, width)
        for cell, width, column in zip(cells, widths, columns, strict=True)
    ]
    lines = []
    for parts in zip_longest(*folded, fillvalue=""):
        padded = []
        for part, width, column in zip(parts, widths, columns, strict=True):
            space = " " * (width - cell_len(part))
            padded.append(space + part if column.align == "right" else part + space)
        lines.append(_GAP.join(padded).rstrip())
    return lines


def _cut(cell: str, width: int) -> list[str]:
    """The cell in one piece no wider than `width`."""
    from rich.cells import cell_len, set_cell_size

    return [cell if cell_len(cell) <= width else set_cell_size(cell, width - 1).rstrip() + "…"]


def _folded(cell: str, width: int) -> list[str]:
    """The cell in pieces no wider than `width`, broken between words where they are plain."""
    from rich.cells import cell_len, chop_cells

    taken = cell_len(cell)
    if taken <= width:
        return [cell]
    return textwrap.wrap(cell, width, break_on_hyphens=False) if taken == len(cell) else chop_cells(cell, width)
