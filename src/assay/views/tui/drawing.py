"""Lines of the table as rich segments: the headings, and rows with aligned columns or inline labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.segment import Segment
from rich.style import Style

from assay import units
from assay.views.tui.columns import SheetColumn
from assay.views.tui.index import Index
from assay.views.tui.layout import GAP, GUTTER, INDENT, RowLayout, cell, cut
from assay.views.tui.rows import Rows
from assay.views.tui.sheet import NAME, Sheet

OPEN, CLOSED, LEAF = "▾ ", "▸ ", "  "
SAME = "•"
"""Gutter mark of rows of the selected row's class, so that colour is not the only cue."""
PINNED = "*"
"""Gutter mark of rows of the pinned class."""
DOWN, UP = "▼", "▲"


@dataclass(frozen=True)
class Drawing:
    """Everything needed to draw the lines of one screen."""

    sheet: Sheet
    rows: Rows
    components: Sequence[SheetColumn]
    layout: RowLayout
    styles: Mapping[str, Style]
    aligned: bool

    def header(self, sorted_by: str, descending: bool) -> list[Segment]:
        """The headings, with an arrow at the sorted column and marks if there are hidden columns on either side."""
        style = self.styles["header"]
        left = "‹ " if self.layout.before else " " * GUTTER

        def title(column: SheetColumn) -> str:
            mark = "" if column.id != sorted_by else DOWN if descending else UP
            return f"{mark}{column.title}" if column.right else f"{column.title}{mark}"

        first, *others = [title(column) for column in self.components] or [""]
        lead = first if self.rows.flat else f"  {first}"
        if not self.aligned:
            return [Segment("  ".join([left + lead, *others]), style)]
        parts = [left, cell(lead, self.layout.tree)]
        parts += [
            " " * GAP + cell(title(column), column.width, right=column.right) for _, column in self.layout.columns
        ]
        return [Segment("".join(parts) + (" ›" if self.layout.after else ""), style)]

    def row(self, row: int, *, same: bool, pinned: bool) -> list[Segment]:
        """One row; `same` and `pinned` mark it as one of the selected row's or the pinned class."""
        mark = PINNED if pinned else SAME if same else " "
        tint = self.styles["pinned"] if pinned else self.styles["same"] if same else Style.null()
        segments = [Segment(mark + " ", tint)]
        guides = "" if self.rows.flat else _guides(self.sheet.index, row)
        marker = LEAF if not self.rows.can_open(row) else OPEN if self.rows.is_open(row) else CLOSED
        lead = ("" if self.rows.flat else guides + marker)[: max(0, self.layout.tree - 2)]
        segments.append(Segment(lead, self.styles["guide"]))
        label = self._first_text(row)
        name_style = self._name_style(row) + (tint if self.rows.matches is None else Style.null())
        if self.aligned:
            width = self.layout.tree - len(lead)
            segments.append(Segment(cell(_fitted(label, width, flat=self.rows.flat), width), name_style))
            for _, column in self.layout.columns:
                text = column.text(row)
                padded = " " * GAP + cell(text, column.width, right=column.right)
                segments.append(Segment(padded, self._cell_style(column, text, tint)))
        else:
            segments.append(Segment(cut(label, 512), name_style))
            for column in self.components[1:]:
                text = column.text(row)
                if text != units.UNKNOWN:
                    segments.append(Segment(" " * GAP + cut(text, 256), self._cell_style(column, text, tint)))
        return segments

    def _first_text(self, row: int) -> str:
        """The text of the first column; in a sorted list names are full paths."""
        if not self.components:
            return ""
        first = self.components[0]
        return self.sheet.label(row, flat=self.rows.flat) if first.id == NAME else first.text(row)

    def _name_style(self, row: int) -> Style:
        if self.rows.matches is not None:
            return self.styles["match"] if self.rows.matches[row] else self.styles["dim"]
        return self.styles["run"] if self.sheet.index.run[row] else self.styles["name"]

    def _cell_style(self, column: SheetColumn, text: str, tint: Style) -> Style:
        if text == units.UNKNOWN:
            return self.styles["dim"]
        style = self.styles["type"] if column.id == "type" else self.styles["cell"]
        if column.italic:
            style += Style(italic=True)
        return style + tint


def _guides(index: Index, row: int) -> str:
    """The vertical lines in front of a row, one for each level that continues below it."""
    guides = []
    for above in index.ancestors(row)[:-1]:
        parent = index.parent[above]
        guides.append("│ " if index.end[above] < index.end[parent] else " " * INDENT)
    return (" " * INDENT if index.depth[row] else "") + "".join(reversed(guides))


def _fitted(label: str, width: int, *, flat: bool) -> str:
    """The label; in a sorted list, a path that is too long loses its beginning."""
    if not flat or len(label) <= width or width < 4:
        return label
    return "…" + label[-(width - 1) :]
