"""The bars around the table: tabs above it; search, status and keys below it."""

from __future__ import annotations

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Input

from assay.views.tables import printable
from assay.views.tui.keys import Key, keys_text
from assay.views.tui.layout import cut
from assay.views.tui.tabs import TABS


class TabBar(Widget):
    """The tabs with their keys, and the name of the explored model."""

    DEFAULT_CSS = """
    TabBar { height: 1; background: $panel; color: $foreground; link-style: none; link-style-hover: bold; }
    """
    active: reactive[str] = reactive(TABS[0].id)

    def __init__(self, title: str) -> None:
        super().__init__(id="tabs")
        self._title = printable(title)

    def render(self) -> Text:
        """The tab titles on one line, shortened to their numbers if the line is too narrow."""
        width = self.size.width
        long = [f" {number} {tab.title} " for number, tab in enumerate(TABS, 1)]
        titles = long if sum(map(len, long)) <= width else [f" {number} " for number in range(1, len(TABS) + 1)]
        text = Text(no_wrap=True, overflow="crop")
        for tab, title in zip(TABS, titles, strict=True):
            style = Style(bold=tab.id == self.active, reverse=tab.id == self.active, dim=tab.id != self.active)
            text.append(title, style + Style(meta={"@click": f"app.tab({tab.id!r})"}))
        available = width - text.cell_len - 2
        if available > 4:
            shown = cut(self._title, available)
            text.append(" " * (available - cell_len(shown) + 1) + shown + " ", Style(bold=True))
        return text


class StatusLine(Widget):
    """Totals of the tab, and search, order and cursor position."""

    DEFAULT_CSS = """
    StatusLine { height: 1; background: $panel; color: $text-muted; padding: 0 1; }
    """
    left: reactive[str] = reactive("")
    right: reactive[str] = reactive("")

    def render(self) -> Text:
        """Totals on the left and the cursor position on the right; totals that do not fit are truncated."""
        width = self.size.width
        right = cut(self.right, width)
        available = width - cell_len(right) - 2
        left = cut(self.left, available) if available > 0 else ""
        return Text(left + " " * max(0, width - cell_len(left) - cell_len(right)) + right, no_wrap=True)


class KeyLine(Widget):
    """The main keys, as many as fit; each can be clicked."""

    DEFAULT_CSS = """
    KeyLine {
        height: 1; background: $panel; color: $foreground; padding: 0 1; link-style: none; link-style-hover: bold;
    }
    """
    keys: reactive[tuple[Key, ...]] = reactive(())

    def render(self) -> Text:
        """`? help  q quit  / search …`."""
        text = Text(no_wrap=True, overflow="crop")
        for key in self.keys:
            first = keys_text(key.keys).partition(" / ")[0]
            part = Text.assemble((first, Style(bold=True)), (f" {key.short}", Style(dim=True)))
            part.stylize(Style(meta={"@click": f"app.{key.action}"}))
            if text.cell_len + part.cell_len + 2 > self.size.width:
                break
            text.append_text(part).append("  ")
        return text


class SearchBar(Input):
    """The text field for a search pattern."""

    DEFAULT_CSS = """
    SearchBar, SearchBar:focus { height: 1; border: none; padding: 0 1; display: none; background: $surface; }
    SearchBar.-open { display: block; }
    """

    def __init__(self) -> None:
        super().__init__(id="search", placeholder="search names, classes or paths (regular expression)")
