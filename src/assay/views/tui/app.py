"""The explorer on the screen: one table, panels around it, and the keys that drive them."""

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
from textual.screen import Screen
from textual.theme import BUILTIN_THEMES
from textual.timer import Timer
from textual.widgets import Input

from assay.errors import UsageError
from assay.views.tui import settings as remembering
from assay.views.tui.actions import Actions
from assay.views.tui.bars import KeyLine, StatusLine, TabBar
from assay.views.tui.gathering import gather
from assay.views.tui.keys import AT_ONCE, FOOTER, TABLE, bindings, in_use
from assay.views.tui.labels import arranged
from assay.views.tui.panels.context import PanelContext
from assay.views.tui.rows import Rows
from assay.views.tui.settings import ExplorerSettings
from assay.views.tui.sheet import Sheet
from assay.views.tui.subject import ExploredModel
from assay.views.tui.tabs import BY_ID
from assay.views.tui.treetable import Tab, TreeTable

DEBOUNCE_S = 0.1
"""How long the highlight must rest before details are looked up."""
_REMOTE = re.compile(r"@font-face \{.*?\}\s*|<!-- Generated.*?-->\s*", re.DOTALL)
"""What rich's pictures would fetch from the network."""
_SIGNALS = ("error", "warning", "success", "accent")


@dataclass(frozen=True)
class ExplorerOptions:
    """How the explorer opens."""

    theme: str = ""
    settings: Path | None = None
    """Where labels and keys are remembered; None remembers nothing."""


class Explorer(Actions):
    """Shows an `ExploredModel` until somebody quits."""

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
        # Somebody's keys may still be in a file that is damaged: it is theirs to mend.
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
        # Panels, labels and search are made when they are first wanted: the table must stand at once.
        yield TabBar(title(self.subject))
        with Horizontal(id="middle"):
            self.table = TreeTable(self.tab_of("tree"), id="table")
            yield self.table
        yield StatusLine()
        yield KeyLine()

    def on_mount(self) -> None:
        """Say what there is to say, and be ready for keys."""
        self.set_keymap(self.remembered.keymap)
        known = {key.id: key for key in in_use(self.remembered.keymap)}
        self.query_one(KeyLine).keys = tuple(known[id] for id in FOOTER)
        self.table.aligned = self.remembered.aligned
        self.go_to(self.table)
        self.tell_state()
        self.ready = True
        for note in filter(None, (self._warning, *self.subject.notes)):
            self.notify(note, markup=False, severity="warning" if note == self._warning else "information")

    def tab_of(self, id: str) -> Tab:
        """The tab, made when it is first looked at."""
        if id not in self.tabs:
            sheet = BY_ID[id].make(self.subject)
            self.tabs[id] = opened(sheet, self.remembered)
        return self.tabs[id]

    def on_tree_table_highlighted(self) -> None:
        """The details follow, once the highlight rests."""
        self.tell_state()
        self.details_soon()

    def details_soon(self) -> None:
        """Look up the details of the selected row in a moment; a moment that is not over begins anew."""
        if self.debounce is not None:
            self.debounce.stop()
        self.debounce = self.set_timer(DEBOUNCE_S, self.details_now)

    def details_now(self) -> None:
        """Ask every open panel about the selected row, and for the statistics of the rows on screen."""
        self.debounce = None
        if not self.table.is_attached:
            return
        for panel in self.panels.values():
            if panel.is_open:
                panel.ask(self._asked())
        gather(self.subject, self.table)

    def _asked(self) -> PanelContext:
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
        """The theme's own colours for what matters."""
        variables = self.get_css_variables()
        return {name: Style(color=Color.parse(variables[f"text-{name}"]).rich_color, bold=True) for name in _SIGNALS}

    def tell_state(self) -> None:
        """The line below the table."""
        tab = self.table.tab
        count = len(tab.rows)
        matches = int(tab.rows.matches.sum()) if tab.rows.matches is not None else None
        status = self.screen_stack[0].query_one(StatusLine)
        status.left = tab.sheet.about
        order = "" if not tab.sorted_by else f"by {tab.sorted_by} {'▼' if tab.descending else '▲'}"
        parts = (
            f"/{self.query_now.text} {matches:,} found" if self.query_now and matches is not None else "",
            "taken literally" if self.query_now and self.query_now.literal else "",
            f"biggest {tab.most}" if tab.most else order,
            f"{tab.rows.cursor + 1 if count else 0:,}/{count:,}",
        )
        status.right = " · ".join(filter(None, parts))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search as one types."""
        self.search_for(event.value)

    def on_input_submitted(self) -> None:
        """Back to the rows that were found."""
        if self.search_bar is not None:
            self.search_bar.remove_class("-open")
        self.go_to(self.table)

    def on_tree_table_header_clicked(self, message: TreeTable.HeaderClicked) -> None:
        """Sort by that column, the other way round where it is sorted so already."""
        tab = self.table.tab
        same = tab.sorted_by == message.column.id
        self.sort_by(message.column.id, descending=not tab.descending if same else message.column.right)

    async def on_tree_table_row_chosen(self) -> None:
        """A double click."""
        await self.action_details()

    def on_label_panel_changed(self) -> None:
        """Other labels, remembered."""
        self.labels_changed()

    def on_label_panel_reset(self) -> None:
        """The labels as they were at first."""
        tab = self.table.tab
        tab.components[:] = arranged(tab.sheet)
        if self.label_panel is not None:
            self.label_panel.show(tab.components)
        self.labels_changed()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """In a text field and in a window, letters are letters."""
        typing = isinstance(self.focused, Input) or len(self.screen_stack) > 1
        return not (typing and action in AT_ONCE)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: every key's action, sorting by every column, and the app's own."""
        for key in in_use(self.remembered.keymap):
            if key.where == TABLE and key.id != "palette":
                yield SystemCommand(f"{key.group}: {key.text}", f"key {key.keys}", self.runner(key.action))
        for each in self.table.tab.components:
            column = each.column
            yield SystemCommand(
                f"Sort by {column.title}", column.about, partial(self.sort_by, column.id, descending=column.right)
            )
        yield from super().get_system_commands(screen)

    def export_screenshot(self, *, title: str | None = None, simplify: bool = True) -> str:
        """The screen as SVG that loads nothing from anywhere: fonts are those of whoever looks at it."""
        return _REMOTE.sub("", super().export_screenshot(title=title, simplify=simplify))

    def watch_theme(self, name: str) -> None:
        """One that was chosen in the palette is remembered; one from the command line is for this time only."""
        if self.ready and name != self.options.theme:
            self.remember(replace(self.remembered, theme=name))


def check_theme(name: str) -> None:
    """Refuse a name that no theme has; the empty one is nobody's choice."""
    if name and name not in BUILTIN_THEMES:
        raise UsageError(f"theme {name!r} was given: one of {', '.join(sorted(BUILTIN_THEMES))} is wanted")


def title(subject: ExploredModel) -> str:
    """What is explored, in a few words."""
    document = subject.document
    parts = (document.model_class, document.origin.name or document.origin.location)
    return " ".join(dict.fromkeys(filter(None, parts))) or "model"


def opened(sheet: Sheet, remembered: ExplorerSettings) -> Tab:
    """A sheet with the labels somebody chose, sorted as it wants to be."""
    rows = Rows(sheet.index, sheet.opened)
    tab = Tab(sheet, rows, arranged(sheet, remembered.labels.get(sheet.remembered_as or sheet.id)))
    column = sheet.column(sheet.sorted_by)
    if column is not None and len(sheet.index):
        tab.sorted_by = column.id
        rows.sort(column.values.keys(), descending=True)
    return tab
