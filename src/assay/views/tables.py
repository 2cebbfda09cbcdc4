"""Tables of row objects and their data formats: CSV, JSON, JSON lines and Markdown; `layout` draws them as text.

A column reads a raw value from a row and formats it. CSV and JSON contain the raw values.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
    drops: float = 0
    """How early the column is hidden if the terminal is narrow: 0 never, 2 before 1, the rightmost first."""
    cuts: Literal["", "end", "middle"] = ""
    """Where text that does not fit is shortened with an ellipsis; by default it is wrapped between words."""
    keeps: int = 0
    """How many characters wider than the other `shrinks` columns it stays."""
    bar: bool = False
    """Whether the value, a share of 1, is drawn as a bar beside its text."""
    paint: Callable[[Row | Mapping[str, Any]], str] | None = None
    """The colour of a row's cell as a terminal code, such as `31` for red; empty for none."""
    name: str = ""
    """The name in CSV and JSON, if it differs from the title."""
    group: str = ""
    """A name by which it can be chosen together with others: `quantiles`."""
    order: Callable[[Row], Any] | None = None
    """What rows are sorted by, if it is not the value."""

    @property
    def key(self) -> str:
        """The name in CSV and JSON."""
        return self.name or self.title

    def value(self, row: Row | Mapping[str, Any]) -> Any:
        """The raw value of `row`; None if `row` is a mapping without this column's key."""
        return row.get(self.key) if isinstance(row, Mapping) else self.of(row)

    def text(self, row: Row | Mapping[str, Any]) -> str:
        """The formatted value; of a mapping, text as it is, and nothing if this column's key is missing."""
        value = row.get(self.key, "") if isinstance(row, Mapping) else self.of(row)
        return printable(value if isinstance(row, Mapping) and isinstance(value, str) else self.show(value))


@dataclass(frozen=True)
class Table:
    """Columns and rows. A row is an object that the columns read, or a mapping from column keys to values."""

    columns: Sequence[Column[Any]]
    rows: Sequence[Any]
    footer: Sequence[Any] = ()
    """Rows of totals; CSV and JSON omit them."""
    bare: bool = False
    """Whether the text format omits the headings, as in a list of facts named by the first column."""
    ruled: bool = True
    """Whether the text format draws lines below the headings and above the footer."""
    extra: Sequence[Column[Any]] = ()
    """Columns that are only shown if they are named."""
    fixed: bool = False
    """Whether it is shown as it is, whatever columns, order and number of rows are chosen; a bare table always is."""

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
    """The table as a Markdown pipe table; one without headings as a list of named facts."""
    if table.bare:
        return "".join(f"- {line}\n" for line in _fact_lines(table))
    marks = {"left": "---", "right": "---:"}
    lines = [
        [column.title for column in table.columns],
        [marks[column.align] for column in table.columns],
        *([markdown_text(cell) for cell in row] for row in _cell_texts(table.columns, [*table.rows, *table.footer])),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _fact_lines(table: Table) -> list[str]:
    """`**Time** 128 ms per pass · measured`, one line per row; a row without a name continues the list."""
    lines = []
    for name, *others in _cell_texts(table.columns, [*table.rows, *table.footer]):
        texts = [markdown_text(text.strip()) for text in others if text.strip()]
        bold = f"**{markdown_text(name.strip())}** " if name.strip() and texts else markdown_text(name.strip())
        lines.append(f"{bold}{' · '.join(texts)}")
    return lines


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
