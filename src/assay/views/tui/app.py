"""The explorer app: one table, panels around it, and the keys that drive them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from msgspec.structs import replace
from rich.style import Style
from textual.app import ComposeResult, SystemCommand
from textual.color import Color
from textual.containers import Horizontal
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.theme import BUILTIN_THEMES
from textual.timer import Timer
from textual.widgets import Input

from assay.errors import UsageError
from assay.messages import plural
from assay.views.partial import marked_title
from assay.views.tui import settings as remembering
from assay.views.tui.actions import Actions
from assay.views.tui.bars import KeyLine, StatusLine, TabBar
from assay.views.tui.gathering import load_statistics
from assay.views.tui.keys import FOOTER, PRIORITY_ACTIONS, TABLE, bindings, with_keymap
from assay.views.tui.labels import arranged
from assay.views.tui.panels.context import PanelContext
from assay.views.tui.rows import Rows
from assay.views.tui.settings import ExplorerSettings
from assay.views.tui.sheet import Sheet
from assay.views.tui.subject import ExploredModel
from assay.views.tui.tabs import BY_ID
from assay.views.tui.treetable import Tab, TreeTable

NOTE_S = 10.0
"""How long the notes about the model stay on screen after opening."""
DEBOUNCE_S = 0.1
"""How long the cursor must rest on a row before its details are loaded."""
_REMOTE = re.compile(r"@font-face \{.*?\}\s*|<!-- Generated.*?-->\s*", re.DOTALL)
"""Parts of rich's SVG that would load fonts from the network."""
_SIGNALS = ("error", "warning", "success", "accent")


@dataclass(frozen=True)
class ExplorerOptions:
    """Options of an explorer session."""

    theme: str = ""
    settings: Path | None = None
    """The settings file; None neither loads nor saves settings."""


class Explorer(Actions):
    """The app that shows an `ExploredModel` until the user quits."""

    TITLE = "assay explore"
    BINDINGS = bindings(TABLE)
    CSS = """
    Screen { layers: base; }
    #middle { height: 1fr; }
    #right { display: none; }
    #right.-open { display: block; }
    TreeTable { width: 1fr; }
    """

    def __init__(self, subject: ExploredModel, options: ExplorerOptions | None = None) -> None:
        options = options or ExplorerOptions()
        file = options.settings
        remembered, warning = remembering.load(file) if file else (ExplorerSettings(), "")
        # A damaged file is not overwritten: the user's keys may still be in it.
        super().__init__(subject, remembered, None if warning else file)
        self.options = options
        self._warning = warning
        self.tabs: dict[str, Tab] = {}
        self.debounce: Timer | None = None
        self.ready = False
        check_theme(options.theme)
        theme = options.theme or remembered.theme
        if theme in self.available_themes:
            self.theme = theme

    def compose(self) -> ComposeResult:
        # Panels, labels and search are created on first use, so that the table appears at once.
        yield TabBar(title(self.subject))
        with Horizontal(id="middle"):
            self.table = TreeTable(self.tab_of("tree"), id="table")
            yield self.table
        yield StatusLine()
        yield KeyLine()

    def on_mount(self) -> None:
        """Apply the settings, focus the table and show notes and warnings."""
        self.set_keymap(self.remembered.keymap)
        keys = {key.id: key for key in with_keymap(self.remembered.keymap)}
        self.query_one(KeyLine).keys = tuple(keys[id] for id in FOOTER)
        self.table.aligned = self.remembered.aligned
        self.focus_now(self.table)
        self.update_status()
        self.ready = True
        for note in filter(None, (self._warning, *self.subject.notes)):
            severity: SeverityLevel = "warning" if note == self._warning else "information"
            self.notify(note, markup=False, severity=severity, timeout=NOTE_S)

    def tab_of(self, id: str) -> Tab:
        """The tab with this id, created when it is first shown."""
        if id not in self.tabs:
            sheet = BY_ID[id].make(self.subject)
            self.tabs[id] = new_tab(sheet, self.remembered)
        return self.tabs[id]

    def on_tree_table_highlighted(self) -> None:
        """Update the status line, and the details once the cursor rests."""
        self.update_status()
        self.update_details_soon()

    def update_details_soon(self) -> None:
        """Load the details of the selected row after `DEBOUNCE_S`; a new call restarts the delay."""
        if self.debounce is not None:
            self.debounce.stop()
        self.debounce = self.set_timer(DEBOUNCE_S, self.update_details)

    def update_details(self) -> None:
        """Load the selected row into every open panel, and the statistics of the rows on screen."""
        self.debounce = None
        if not self.table.is_attached:
            return
        for panel in self.panels.values():
            if panel.is_open:
                panel.load(self._panel_context())
        load_statistics(self.subject, self.table)

    def _panel_context(self) -> PanelContext:
        tab, row = self.table.tab, self.table.rows.row
        return PanelContext(
            subject=self.subject,
            module=int(tab.sheet.modules[row]) if row >= 0 else -1,
            tensor=tab.sheet.tensor(row) if row >= 0 and not tab.sheet.index.run[row] else None,
            styles=self._signals(),
            dark=self.current_theme.dark,
            background="default" if self.current_theme.ansi else self.table.background_colors[1].hex6,
        )

    def _signals(self) -> dict[str, Style]:
        """The theme's styles for errors, warnings, successes and accents."""
        variables = self.get_css_variables()
        return {name: Style(color=Color.parse(variables[f"text-{name}"]).rich_color, bold=True) for name in _SIGNALS}

    def update_status(self) -> None:
        """Show totals, search, order and cursor position in the status line."""
        tab = self.table.tab
        count = len(tab.rows)
        matches = int(tab.rows.matches.sum()) if tab.rows.matches is not None else None
        status = self.screen_stack[0].query_one(StatusLine)
        status.left = tab.sheet.about
        sorted_title = next((each.column.title for each in tab.components if each.column.id == tab.sorted_by), "")
        order = f"by {sorted_title} {'▼' if tab.descending else '▲'}" if sorted_title else ""
        query = self.query_now
        parts = (
            f"/{query.text}: {plural(matches, 'match', 'matches')}" if query and matches is not None else "",
            "literal" if query and query.literal else "",
            f"largest {tab.limit}" if tab.limit else order,
            f"{tab.rows.cursor + 1 if count else 0:,}/{count:,}",
        )
        status.right = " · ".join(filter(None, parts))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search while the pattern is typed."""
        self.search_for(event.value)

    def on_input_submitted(self) -> None:
        """Close the search bar and return to the matching rows."""
        if self.search_bar is not None:
            self.search_bar.remove_class("-open")
        self.focus_now(self.table)

    def on_tree_table_header_clicked(self, message: TreeTable.HeaderClicked) -> None:
        """Sort by the clicked column, or reverse the order if it is sorted by it already."""
        tab = self.table.tab
        same = tab.sorted_by == message.column.id
        self.sort_by(message.column.id, descending=not tab.descending if same else message.column.right)

    async def on_tree_table_row_chosen(self) -> None:
        """Show the details of a row that was double-clicked."""
        await self.action_details()

    def on_label_panel_changed(self) -> None:
        """Apply and save the new labels."""
        self.labels_changed()

    def on_label_panel_reset(self) -> None:
        """Restore the default labels."""
        tab = self.table.tab
        tab.components[:] = arranged(tab.sheet)
        if self.label_panel is not None:
            self.label_panel.show(tab.components)
        self.labels_changed()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable priority actions in text fields and dialogs, so that their letters can be typed."""
        typing = isinstance(self.focused, Input) or len(self.screen_stack) > 1
        return not (typing and action in PRIORITY_ACTIONS)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The command palette: the action of every key, sorting by every column, and textual's own commands."""
        for key in with_keymap(self.remembered.keymap):
            if key.where == TABLE and key.id != "palette":
                yield SystemCommand(f"{key.group}: {key.text}", f"key {key.keys}", self.runner(key.action))
        for each in self.table.tab.components:
            column = each.column
            yield SystemCommand(
                f"Sort by {column.title}", column.about, partial(self.sort_by, column.id, descending=column.right)
            )
        yield from super().get_system_commands(screen)

    def export_screenshot(self, *, title: str | None = None, simplify: bool = True) -> str:
        """The screen as SVG without remote fonts; the viewer's own fonts are used."""
        return _REMOTE.sub("", super().export_screenshot(title=title, simplify=simplify))

    def watch_theme(self, name: str) -> None:
        """Save a theme chosen in the palette; a theme given in the options is not saved."""
        if self.ready and name != self.options.theme:
            self.remember(replace(self.remembered, theme=name))


def check_theme(name: str) -> None:
    """Raise `UsageError` if there is no theme of this name; an empty name is the default theme."""
    if name and name not in BUILTIN_THEMES:
        raise UsageError(f"unknown theme {name!r}: choose from {', '.join(sorted(BUILTIN_THEMES))}")


def title(subject: ExploredModel) -> str:
    """The class and the origin of the explored model."""
    document = subject.document
    parts = (document.model_class, document.origin.name or document.origin.location)
    return marked_title(" ".join(dict.fromkeys(filter(None, parts))) or "model", document)


def new_tab(sheet: Sheet, remembered: ExplorerSettings) -> Tab:
    """A new tab of `sheet` with the saved labels and the sheet's default order."""
    rows = Rows(sheet.index, sheet.opened)
    tab = Tab(sheet, rows, arranged(sheet, remembered.labels.get(sheet.remembered_as or sheet.id)))
    column = sheet.column(sheet.sorted_by)
    if column is not None and len(sheet.index):
        tab.sorted_by = column.id
        rows.sort(column.values.keys(), descending=True)
    return tab
