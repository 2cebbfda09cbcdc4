"""Tables of row objects and their output formats: text, CSV, JSON, JSON lines and Markdown.

A column reads a raw value from a row and formats it. CSV and JSON contain the raw values.
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
    """One column: its heading, how to read its value from a row, and how to format the value."""

    title: str
    of: Callable[[Row], Any]
    align: Literal["left", "right"] = "left"
    show: Callable[[Any], str] = _as_text
    shrinks: bool = False
    """Whether the column wraps its text if the terminal is narrow; other columns keep their width."""
    drops: int = 0
    """How early the column is hidden if the terminal is narrow: 0 never, 2 before 1, the rightmost of equals first."""
    cuts: Literal["", "end", "middle"] = ""
    """Where text that does not fit is shortened with an ellipsis; by default it is wrapped between words."""
    keeps: int = 0
    """How many characters wider than the other `shrinks` columns it stays."""
    bar: bool = False
    """Whether the value, a share of 1, is drawn as a bar beside its text."""
    name: str = ""
    """The name in CSV and JSON, if it differs from the title."""

    @property
    def key(self) -> str:
        """The name in CSV and JSON."""
        return self.name or self.title

    def value(self, row: Row | Mapping[str, Any]) -> Any:
        """The raw value of `row`; None if `row` is a mapping without this column's key."""
        return row.get(self.key) if isinstance(row, Mapping) else self.of(row)

    def text(self, row: Row | Mapping[str, Any]) -> str:
        """The formatted value."""
        return printable(self.show(self.value(row)))


@dataclass(frozen=True)
class Table:
    """Columns and rows. A row is an object that the columns read, or a mapping from column keys to values."""

    columns: Sequence[Column[Any]]
    rows: Sequence[Any]
    footer: Sequence[Any] = ()
    """Rows of totals; CSV and JSON omit them."""
    bare: bool = False
    """Whether the text format omits the headings, as in a list of facts named by the first column."""

    def values(self) -> list[dict[str, Any]]:
        """One dict per row, from column keys to raw values."""
        return [{column.key: column.value(row) for column in self.columns} for row in self.rows]

    def first(self, count: int | None) -> Table:
        """The table with its first `count` rows (all if None) and its footer."""
        return replace(self, rows=self.rows[:count])

    def without_empty(self) -> Table:
        """The table without columns whose values are all None; unchanged if it has no rows."""
        if not self.rows:
            return self
        filled = [column for column in self.columns if any(column.value(row) is not None for row in self.rows)]
        return replace(self, columns=filled)


def printable(text: str) -> str:
    """`text` with control characters (escape sequences, line breaks) made visible: `printable("\\n") == "\\\\n"`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def as_csv(table: Table) -> str:
    """The table as CSV with raw values, one line per row; an unknown value is an empty field."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([column.key for column in table.columns])
    for row in table.rows:
        values = (column.value(row) for column in table.columns)
        writer.writerow([printable(value) if isinstance(value, str) else value for value in values])
    return buffer.getvalue()


def as_json_lines(table: Table) -> str:
    """One JSON object per row and line. The key of column `self FLOPs` is `self_flops`; unknown values are null."""
    import msgspec

    return msgspec.json.Encoder().encode_lines(_objects(table)).decode()


def as_json(table: Table) -> str:
    """The objects of `as_json_lines` as one JSON list."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(_objects(table))).decode() + "\n"


def _objects(table: Table) -> list[dict[str, Any]]:
    return [{key.lower().replace(" ", "_"): value for key, value in row.items()} for row in table.values()]


def as_markdown(table: Table) -> str:
    """The table as a Markdown pipe table."""
    marks = {"left": "---", "right": "---:"}
    lines = [
        [column.title for column in table.columns],
        [marks[column.align] for column in table.columns],
        *([markdown_text(cell) for cell in row] for row in _cell_texts(table.columns, [*table.rows, *table.footer])),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def as_text(table: Table, *, width: int | None = None, color: bool = False) -> str:
    """The table as aligned text, fitted to `width` characters; if None, one line per row of any length."""
    rows, footer = _cell_texts(table.columns, table.rows), _cell_texts(table.columns, table.footer)
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
    """`line` inside the terminal's escape codes for bold."""
    return f"\x1b[1m{line}\x1b[0m"


_GAP = "  "
_COMFORTABLE = 24
"""A wrapped column keeps this width as long as other columns can be omitted instead."""
_MIN_WIDTH = 8
"""The smallest width of a wrapped column, however narrow the terminal."""


def markdown_text(text: str) -> str:
    """`text` with Markdown's special characters escaped, pipes included."""
    for special in "\\`*_{}[]<>|":
        text = text.replace(special, f"\\{special}")
    return text


def percent(share: float | None) -> str:
    """A share of 1 as a percentage: `percent(0.125) == "12.5 %"`."""
    return units.share(share, 1)


def _cell_texts(columns: Sequence[Column[Any]], rows: Sequence[Any]) -> list[list[str]]:
    return [[column.text(row) for column in columns] for row in rows]


def _natural_widths(table: Table, rows: list[list[str]]) -> list[int]:
    """The width of each column's longest cell, heading included."""
    from rich.cells import cell_len

    headings = [""] * len(table.columns) if table.bare else [column.title for column in table.columns]
    return [max(map(cell_len, cells)) for cells in zip(headings, *rows, strict=True)]


def _fitted(columns: Sequence[Column[Any]], natural: list[int], width: int | None) -> tuple[list[int], list[int]]:
    """The indices of the columns that fit into `width`, and their widths.

    Columns with `drops` are omitted first; then the widest columns with `shrinks` are narrowed.
    """
    kept = list(range(len(columns)))
    if width is None:
        return kept, natural
    comfortable = [
        min(wide, _COMFORTABLE) if column.shrinks else wide for column, wide in zip(columns, natural, strict=True)
    ]
    for index in reversed(kept.copy()):
        if columns[index].drops and _line_width([comfortable[at] for at in kept]) > width:
            kept.remove(index)
    widths = [min(natural[index], width) if columns[index].shrinks else natural[index] for index in kept]
    while _line_width(widths) > width:
        shrinking = [at for at, index in enumerate(kept) if columns[index].shrinks and widths[at] > _MIN_WIDTH]
        if not shrinking:
            break
        widths[max(shrinking, key=lambda at: widths[at] - columns[kept[at]].keeps)] -= 1
    return kept, widths


def _line_width(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _lines(cells: list[str], widths: list[int], columns: Sequence[Column[Any]]) -> list[str]:
    """The text lines of one row."""
    from rich.cells import cell_len

    wrapped = [
        [_shortened(cell, width, column.cuts)] if column.cuts else _wrapped(cell, width)
        for cell, width, column in zip(cells, widths, columns, strict=True)
    ]
    lines = []
    for parts in zip_longest(*wrapped, fillvalue=""):
        padded = []
        for part, width, column in zip(parts, widths, columns, strict=True):
            space = " " * (width - cell_len(part))
            padded.append(space + part if column.align == "right" else part + space)
        lines.append(_GAP.join(padded).rstrip())
    return lines


def _shortened(cell: str, width: int, where: str) -> str:
    """The cell in at most `width` characters; if it was longer, with an ellipsis at its end or in its middle."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(cell) <= width:
        return cell
    after = (width - 1) // 2 if where == "middle" else 0
    end = set_cell_size(cell[::-1], after)[::-1] if after else ""
    return set_cell_size(cell, width - 1 - after).rstrip() + "…" + end.lstrip()


def _wrapped(cell: str, width: int) -> list[str]:
    """The cell in lines of at most `width` characters, broken between words unless it has wide characters."""
    from rich.cells import cell_len, chop_cells

    cells = cell_len(cell)
    if cells <= width:
        return [cell]
    return textwrap.wrap(cell, width, break_on_hyphens=False) if cells == len(cell) else chop_cells(cell, width)
