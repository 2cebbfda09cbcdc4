"""Text layout of tables: which columns fit into a width, and how cells are shortened, wrapped, coloured and drawn.

No line is wider than the style allows. Columns are hidden by their priority, names are shortened in the middle, and
sentences wrap between words. What was hidden is returned, so that a report can state it once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import zip_longest
from typing import Any, NamedTuple

from assay.views.cells import cell_len, set_cell_size
from assay.views.plain import plain
from assay.views.plots import bar
from assay.views.tables import Column, Table

_GAP = "  "
_COMFORTABLE = 24
"""A column that shrinks keeps this width as long as others can be hidden instead."""
_MIN_WIDTH = 8
"""The smallest width of a column that shrinks, unless it is alone."""
_NAMES = 0.4
"""The share of the line that the names of the rows keep as long as other columns can be hidden."""
_MOST_NAMES = 0.6
"""The same for names that would look alike if they were shorter."""
_COMPARED = 500
"""The rows whose shortened names must stay distinct; more would take noticeable time."""
_NUMBER_PARTS = "0123456789–,"
"""What numbers and ranges in names consist of."""
_BAR_WIDTH = 10
_BAR_DROPS = 0.5
"""Bars are hidden after the columns that may be hidden, and before all others."""
_ASCII_CUT = "~"
"""Stands for an ellipsis where only ASCII can be displayed, in the same width."""
_BOLD, _DIM = "1", "2"
_HEAT = ((0.2, "31"), (0.05, "33"))
"""Colours of bars from this share of the whole on: red, yellow; smaller shares have none."""


@dataclass(frozen=True)
class Style:
    """How text is laid out: its width, and whether colour, non-ASCII characters and all columns are allowed."""

    width: int | None = None
    """The most characters per line; None is without limit."""
    color: bool = False
    utf8: bool = True
    all_columns: bool = False
    """Show every column; those that do not fit follow in further blocks below."""

    def characters(self, text: str) -> str:
        """`text` in the characters that can be displayed."""
        return text if self.utf8 else plain(text)

    def lines(self, text: str) -> list[str]:
        """`text` in lines that fit, in the characters that can be displayed."""
        text = self.characters(text)
        lines = wrapped(text, self.width) if self.width else [text]
        return lines if self.utf8 else [line.replace("…", _ASCII_CUT) for line in lines]

    def bold(self, line: str) -> str:
        """`line` in bold, if colour is allowed."""
        return painted(line, _BOLD) if self.color else line

    def dim(self, line: str) -> str:
        """`line` dimmed, if colour is allowed."""
        return painted(line, _DIM) if self.color else line


DEFAULT = Style()


class LaidOut(NamedTuple):
    """The lines of a table, and the titles of the columns that did not fit."""

    lines: list[str]
    hidden: list[str]


def painted(text: str, code: str) -> str:
    """`text` inside the terminal's escape codes for `code`; empty text stays empty."""
    return f"\x1b[{code}m{text}\x1b[0m" if text else ""


def lay_out(table: Table, style: Style = DEFAULT) -> LaidOut:
    """The table as lines of text that fit into `style.width`."""
    grid = _Grid(_with_bars(table, style), style)
    if style.all_columns and style.width is not None:
        return LaidOut(grid.blocks(), [])
    kept, widths = grid.fit()
    titles = [column.title for at, column in enumerate(grid.columns) if at not in kept and column.title]
    return LaidOut(grid.drawn(kept, widths), [] if table.bare else titles)


def as_text(table: Table, style: Style = DEFAULT) -> str:
    """The table as text, one line per row unless cells wrap."""
    return "".join(f"{line}\n" for line in lay_out(table, style).lines)


def wrapped(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` cells, broken between words; longer words are shortened in the middle."""
    if cell_len(text) <= width:
        return [text]
    indent = " " * min(len(text) - len(text.lstrip()), width // 2)
    lines: list[str] = []
    for word in text.split():
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(indent + shortened(word, width - len(indent), "middle"))
    return lines or [""]


def shortened(text: str, width: int, where: str) -> str:
    """`text` in at most `width` cells; if it was longer, with an ellipsis at its end or in its middle.

    The middle leaves three times as much of the end as of the beginning, because names differ more at their end. A
    number is left out rather than cut, which would make another number of it.
    """
    if cell_len(text) <= width:
        return text
    after = (width - 1) * 3 // 4 if where == "middle" else 0
    end = set_cell_size(text[::-1], after)[::-1].lstrip() if after else ""
    if end and text[: -len(end)].endswith(tuple(_NUMBER_PARTS)):
        end = end.lstrip(_NUMBER_PARTS)
    start = set_cell_size(text, max(width - 1 - after, 0)).rstrip()
    if text[len(start) : len(start) + 1].isdigit():
        start = start.rstrip("0123456789")
    return f"{start}…{end}"


def shortened_names(names: Iterable[str], width: int) -> dict[str, str]:
    """Each name in at most `width` cells; names that would look alike also show the place from which they differ."""
    short = {name: shortened(name, width, "middle") for name in names}
    alike: dict[str, list[str]] = {}
    for name, text in short.items():
        alike.setdefault(text, []).append(name)
    for group in alike.values():
        if len(group) > 1:
            place = next(at for at, letters in enumerate(zip_longest(*group)) if len(set(letters)) > 1)
            tries = [{name: _from_place(name, place, width, tail) for name in group} for tail in (width // 2, 0)]
            best = max(tries, key=_distinct)
            short |= best
    return short


def _distinct(short: Mapping[str, str]) -> int:
    return len(set(short.values()))


def _from_place(text: str, place: int, width: int, tail: int) -> str:
    """The part of `text` from `place` on and its last `tail` letters, between ellipses, in at most `width` cells."""
    while place and text[place - 1].isdigit():
        place -= 1
    rest = f"…{text[place:]}" if place else text
    if cell_len(rest) <= width:
        return rest
    end = shortened(text, tail, "middle").rpartition("…")[2] if tail else ""
    return f"{set_cell_size(rest, max(width - 1 - cell_len(end), 0)).rstrip()}…{end}"


def _with_bars(table: Table, style: Style) -> Table:
    """The table with a column of bars before each column whose values are shares."""
    columns: list[Column[Any]] = []
    for column in table.columns:
        if column.bar and table.rows:
            columns.append(_bar_column(column, table.rows, style))
        columns.append(column)
    return replace(table, columns=columns)


def _bar_column(column: Column[Any], rows: Sequence[Any], style: Style) -> Column[Any]:
    """Bars relative to the largest share; rows of totals have none."""
    shares = {id(row): column.value(row) or 0.0 for row in rows}
    most = max(shares.values(), default=0.0)

    def draw(row: Any) -> str:
        share = shares.get(id(row), 0.0)
        return bar(share / most, _BAR_WIDTH, utf8=style.utf8) if share > 0 else ""

    def heat(row: Any) -> str:
        share = shares.get(id(row), 0.0)
        return next((code for least, code in _HEAT if share >= least), "")

    return Column("", draw, show=lambda text: text or "", drops=_BAR_DROPS, paint=heat, name="\0bar")


class _Grid:
    """The cells of a table as text."""

    def __init__(self, table: Table, style: Style) -> None:
        self.columns, self._table, self._style = table.columns, table, style
        self._titles = [style.characters(column.title) for column in table.columns]
        self._rows, self._footer = self._texts(table.rows), self._texts(table.footer)
        cells = [[""] * len(self.columns), *self._rows, *self._footer]
        self._contents = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]

    def _texts(self, rows: Sequence[Any]) -> list[list[str]]:
        return [[self._style.characters(column.text(row)) for column in self.columns] for row in rows]

    def _natural(self, *, narrow: bool = False) -> list[int]:
        """The width of each column's longest cell and its heading, or the heading's longest word if `narrow`."""
        if self._table.bare:
            return list(self._contents)
        headings = [
            max(map(cell_len, title.split()), default=0) if narrow else cell_len(title) for title in self._titles
        ]
        return [max(pair) for pair in zip(self._contents, headings, strict=True)]

    def fit(self) -> tuple[list[int], list[int]]:
        """The indices of the columns that fit, and their widths."""
        kept, width = list(range(len(self.columns))), self._style.width
        natural = self._natural()
        if width is None or _line_width(natural) <= width:
            return kept, natural
        natural = self._natural(narrow=True)
        comfortable = [self._comfortable(at, wide, width) for at, wide in enumerate(natural)]
        least = [min(wide, _MIN_WIDTH) if column.shrinks else wide
                 for column, wide in zip(self.columns, natural, strict=True)]  # fmt: skip
        for index in self._hiding_order():
            bound = comfortable if self.columns[index].drops else least
            if _line_width([bound[at] for at in kept]) > width and len(kept) > 1:
                kept.remove(index)
        return kept, self._narrowed(kept, natural, width, comfortable)

    def _comfortable(self, at: int, natural: int, width: int) -> int:
        """The width that a column keeps as long as others can be hidden; names stay distinct if shortened to it."""
        column = self.columns[at]
        if not column.shrinks:
            return natural
        least = min(natural, _COMFORTABLE + column.keeps)
        if column.cuts != "middle" or at:
            return least
        least = min(natural, max(least, round(width * _NAMES)))
        names = {row[at] for row in self._rows[:_COMPARED]}
        widths = range(least, min(natural, round(width * _MOST_NAMES)) + 1)
        distinct = (wide for wide in widths if len({shortened(name, wide, "middle") for name in names}) == len(names))
        return next(distinct, least)

    def _hiding_order(self) -> list[int]:
        """The columns from the one to hide first; the first column always stays."""
        return sorted(range(1, len(self.columns)), key=lambda at: (-self.columns[at].drops, -at))

    def _narrowed(
        self, kept: list[int], natural: list[int], width: int, comfortable: Sequence[int] = ()
    ) -> list[int]:
        """The widths of the kept columns: those that shrink give up what the line is too wide, the widest first.

        As long as one is wider than `comfortable`, the others keep that width.
        """
        widths = [min(natural[index], width) for index in kept]
        while _line_width(widths) > width:
            shrinking = [
                at for at, index in enumerate(kept) if self.columns[index].shrinks and widths[at] > _MIN_WIDTH
            ]
            roomy = [at for at in shrinking if comfortable and widths[at] > comfortable[kept[at]]]
            shrinking = roomy or shrinking
            if not shrinking:
                shrinking = [at for at in range(len(kept)) if widths[at] > 1][:1]
            if not shrinking:
                break
            widths[max(shrinking, key=lambda at: widths[at] - self.columns[kept[at]].keeps)] -= 1
        return widths

    def blocks(self) -> list[str]:
        """All columns, in blocks below each other that repeat the first column."""
        width, natural = self._style.width or 0, self._natural(narrow=True)
        label = min(natural[0], _COMFORTABLE) if self.columns[0].shrinks else natural[0]
        if _line_width(self._natural()) <= width:
            return self.drawn(*self.fit())
        groups: list[list[int]] = [[0]]
        for index in range(1, len(self.columns)):
            wide = min(natural[index], _COMFORTABLE) if self.columns[index].shrinks else natural[index]
            if _line_width([label, *(natural[at] for at in groups[-1][1:]), wide]) > width and len(groups[-1]) > 1:
                groups.append([0])
            groups[-1].append(index)
        lines: list[str] = []
        for group in groups:
            lines += [*([""] if lines else []), *self.drawn(group, self._narrowed(group, natural, width))]
        return lines

    def drawn(self, kept: list[int], widths: list[int]) -> list[str]:
        """The lines of the table with the `kept` columns in `widths`."""
        rule = ("─" if self._style.utf8 else "-") * _line_width(widths)
        ruled = [rule] if self._table.ruled else []
        lines = [] if self._table.bare else [*self._heading(kept, widths), *ruled]
        for row, cells in zip(self._table.rows, self._rows, strict=True):
            lines += self._lines(row, cells, kept, widths)
        lines += ruled if self._footer else []
        for row, cells in zip(self._table.footer, self._footer, strict=True):
            lines += self._lines(row, cells, kept, widths)
        return lines

    def _heading(self, kept: list[int], widths: list[int]) -> list[str]:
        lines = self._lines(None, self._titles, kept, widths)
        return [self._style.bold(line) for line in lines]

    def _lines(self, row: Any, cells: Sequence[str], kept: list[int], widths: list[int]) -> list[str]:
        """The text lines of one row; `row` is None for the heading, whose cells always wrap."""
        parts = [self._fitted(cells[at], width, at, row is None) for at, width in zip(kept, widths, strict=True)]
        paints = [self._paint(row, at) for at in kept]
        lines = []
        for texts in zip_longest(*parts, fillvalue=""):
            padded = []
            for text, width, at, paint in zip(texts, widths, kept, paints, strict=True):
                space = " " * (width - cell_len(text))
                text = painted(text, paint) if paint else text
                padded.append(space + text if self.columns[at].align == "right" else text + space)
            lines.append(_GAP.join(padded).rstrip())
        return lines

    def _fitted(self, cell: str, width: int, at: int, heading: bool) -> list[str]:
        if cell_len(cell) <= width:
            return [cell]
        cuts = self.columns[at].cuts
        if cuts == "middle" and not at and not heading:
            lines = [self._names(width).get(cell) or shortened(cell, width, cuts)]
        else:
            lines = [shortened(cell, width, cuts)] if cuts and not heading else wrapped(cell, width)
        return lines if self._style.utf8 else [line.replace("…", _ASCII_CUT) for line in lines]

    @cache  # noqa: B019  a grid lives as long as its table is drawn
    def _names(self, width: int) -> dict[str, str]:
        """The names of the first rows, shortened to `width`."""
        return shortened_names(dict.fromkeys(row[0] for row in self._rows[:_COMPARED]), width)

    def _paint(self, row: Any, at: int) -> str:
        paint = self.columns[at].paint
        return paint(row) if self._style.color and row is not None and paint is not None else ""


def _line_width(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)
