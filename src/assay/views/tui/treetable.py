"""The table widget of the explorer: a tree with columns that renders only the lines on screen."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from assay.views.tui.columns import SheetColumn
from assay.views.tui.drawing import Drawing
from assay.views.tui.labels import Component
from assay.views.tui.layout import GUTTER, INDENT, MIN_TREE, RowLayout, fit, natural_width
from assay.views.tui.rows import Rows
from assay.views.tui.sheet import Sheet

HEADER = 1
_PARTS = ("header", "cursor", "guide", "name", "run", "type", "cell", "dim", "match", "same", "pinned", "empty")
_SAMPLE = 200
"""Rows of a sorted list from which the width of the first column is derived."""


@dataclass
class Tab:
    """A sheet and the state of its view, kept while another tab is shown."""

    sheet: Sheet
    rows: Rows
    components: list[Component]
    """All columns in order, visible or not."""
    sorted_by: str = ""
    descending: bool = True
    limit: int | None = None
    """The maximum number of rows of a sorted list; None shows all."""
    shifted: int = 0
    scroll_y: int = 0
    pinned_kind: int | None = None
    """The class that stays highlighted, as an id of the sheet's kinds."""

    @property
    def columns(self) -> list[SheetColumn]:
        """The visible columns."""
        return [each.column for each in self.components if each.on]


class TreeTable(ScrollView, can_focus=True, inherit_bindings=False):
    """The widget that shows the rows of a `Tab`."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"treetable--{part}" for part in _PARTS}

    DEFAULT_CSS = """
    TreeTable {
        overflow-x: hidden;
        scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
        background: $background;
        color: $foreground;
    }
    TreeTable > .treetable--header { color: $text-muted; text-style: bold; background: $surface; }
    TreeTable > .treetable--cursor { background: $block-cursor-blurred-background; }
    TreeTable:focus > .treetable--cursor {
        background: $block-cursor-background;
        color: $block-cursor-foreground;
        text-style: bold;
    }
    TreeTable > .treetable--guide { color: $text-disabled; }
    TreeTable > .treetable--name { color: $foreground; }
    TreeTable > .treetable--run { color: $text-accent; }
    TreeTable > .treetable--type { color: $text-secondary; }
    TreeTable > .treetable--cell { color: $foreground; }
    TreeTable > .treetable--dim { color: $text-disabled; }
    TreeTable > .treetable--match { color: $text-warning; text-style: bold underline; }
    TreeTable > .treetable--same { color: $text-success; }
    TreeTable > .treetable--pinned { color: $text-success; text-style: bold; }
    TreeTable > .treetable--empty { color: $text-muted; }
    """

    aligned: reactive[bool] = reactive(True)

    class Highlighted(Message):
        """The cursor moved to another row, or the rows changed."""

    class HeaderClicked(Message):
        """The heading of this column was clicked."""

        def __init__(self, column: SheetColumn) -> None:
            super().__init__()
            self.column = column

    class RowChosen(Message):
        """A row was double-clicked."""

    def __init__(self, tab: Tab, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.tab = tab
        self._cached_styles: dict[str, Style] | None = None
        self._drawing: Drawing | None = None
        self._natural = natural_width(tab.sheet)

    @property
    def sheet(self) -> Sheet:
        """The sheet of the current tab."""
        return self.tab.sheet

    @property
    def rows(self) -> Rows:
        """The visible rows of the current tab."""
        return self.tab.rows

    def on_mount(self) -> None:
        self._resize()

    def on_resize(self) -> None:
        self._resize()
        self.follow_cursor()

    def show(self, tab: Tab) -> None:
        """Show another tab as it was left."""
        self.tab.scroll_y = self.scroll_offset.y
        self.tab = tab
        self._natural = natural_width(tab.sheet)
        self.changed()
        self.scroll_to(y=tab.scroll_y, animate=False, force=True)
        self.follow_cursor()

    def changed(self) -> None:
        """Redraw after rows, columns or order have changed."""
        self._resize()
        self.follow_cursor()
        self.refresh()
        self.post_message(self.Highlighted())

    def move_to(self, position: int) -> None:
        """Move the cursor to a position among the visible rows."""
        self.rows.move_to(position)
        self.follow_cursor()
        self.refresh()
        self.post_message(self.Highlighted())

    @property
    def _width(self) -> int:
        """The width of a line in terminal cells, without the scrollbar."""
        return self.scrollable_content_region.width

    @property
    def page(self) -> int:
        """The number of rows that fit on the screen."""
        return max(1, self.size.height - HEADER)

    def on_screen(self) -> list[int]:
        """The rows currently on screen."""
        first = self.scroll_offset.y
        return [int(row) for row in self.rows.shown[first : first + self.page]]

    def follow_cursor(self) -> None:
        """Scroll to the cursor without animation."""
        top, at = self.scroll_offset.y, self.rows.cursor
        if at < top:
            self.scroll_to(y=at, animate=False, force=True)
        elif at >= top + self.page:
            self.scroll_to(y=at - self.page + 1, animate=False, force=True)

    def shift_columns(self, step: int) -> None:
        """Scroll the columns sideways by `step`."""
        layout = self._layout()
        if step > 0 and not layout.after:
            return
        self.tab.shifted = max(0, layout.before + step)
        self._drawing = None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Line `y` of the widget: the headings or a row."""
        width, styles = self._width, self._styles()
        if y < HEADER:
            segments = self._draw().header(self.tab.sorted_by, self.tab.descending)
            return Strip(segments).adjust_cell_length(width, styles["header"]).apply_style(self.rich_style)
        position = self.scroll_offset.y + y - HEADER
        if position >= len(self.rows):
            return self._blank(y, width)
        row = int(self.rows.shown[position])
        kind = int(self.sheet.kinds.ids[row])
        is_cursor = position == self.rows.cursor
        same = kind == self._cursor_kind and not is_cursor
        segments = self._draw().row(row, same=same, pinned=kind == self.tab.pinned_kind)
        strip = Strip(segments).crop(0, width).adjust_cell_length(width, Style.null())
        if is_cursor:
            strip = Strip([Segment(text, styles["cursor"]) for text, _, _ in strip])
        return strip.apply_style(self.rich_style)

    @property
    def _cursor_kind(self) -> int:
        row = self.rows.row
        if row < 0 or self.sheet.kinds[row] is None:
            return -1
        return int(self.sheet.kinds.ids[row])

    def _blank(self, y: int, width: int) -> Strip:
        """A line below the last row; if there are no rows, a line of the message that explains why."""
        text = ""
        if not len(self.rows):
            limit = max(8, width - 4)
            lines = [line for part in self.why_empty.splitlines() for line in textwrap.wrap(part, limit) or [""]]
            text = lines[y - HEADER - 1] if 0 <= y - HEADER - 1 < len(lines) else ""
        segments = [Segment(f"  {text}", self._styles()["empty"])]
        return Strip(segments).crop(0, width).adjust_cell_length(width).apply_style(self.rich_style)

    @property
    def why_empty(self) -> str:
        """Why there are no rows."""
        if self.rows.matches is not None:
            return "No matches. Press Backspace to clear the search."
        return self.sheet.empty

    def _layout(self) -> RowLayout:
        natural = self._natural
        if self.rows.flat:
            sample = self.rows.shown[:_SAMPLE]
            natural = max([MIN_TREE, *(len(self.sheet.label(int(row), flat=True)) for row in sample)])
        return fit(self.tab.columns[1:], natural, self._width, self.tab.shifted)

    def _draw(self) -> Drawing:
        if self._drawing is None:
            self._drawing = Drawing(
                self.sheet, self.rows, self.tab.columns, self._layout(), self._styles(), aligned=self.aligned
            )
        return self._drawing

    def _styles(self) -> dict[str, Style]:
        """The styles of all parts, resolved once per theme."""
        if self._cached_styles is None:
            self._cached_styles = {part: self.get_component_rich_style(f"treetable--{part}") for part in _PARTS}
        return self._cached_styles

    def _resize(self) -> None:
        self._drawing = None
        self.virtual_size = Size(self._width, len(self.rows) + HEADER)

    def watch_aligned(self) -> None:
        """Redraw with aligned columns or inline labels."""
        self._drawing = None
        self.refresh()

    def notify_style_update(self) -> None:
        """Drop cached styles after a change of theme or focus."""
        super().notify_style_update()
        self._cached_styles = None
        self._drawing = None

    def on_click(self, event: events.Click) -> None:
        """Sort by a clicked heading, select a clicked row, fold it at its marker, show details on double click."""
        if event.y < HEADER:
            column = self._layout().column_at(event.x)
            if column is not None:
                self.post_message(self.HeaderClicked(column))
            return
        position = self.scroll_offset.y + event.y - HEADER
        if position >= len(self.rows):
            return
        self.move_to(position)
        row = self.rows.row
        marker = GUTTER + INDENT * int(self.sheet.index.depth[row])
        if marker <= event.x < marker + INDENT and self.rows.can_open(row):
            self.rows.toggle(row)
            self.changed()
        elif event.chain == 2:
            self.post_message(self.RowChosen())
