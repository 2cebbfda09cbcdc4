"""What each key does, in the words of the table of keys."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace
from textual.app import App
from textual.containers import Vertical
from textual.widget import Widget

from assay.errors import AssayError
from assay.views.tui import clipboard, export
from assay.views.tui import labels as labelling
from assay.views.tui import settings as remembering
from assay.views.tui.bars import SearchBar, StatusLine, TabBar
from assay.views.tui.folds import fold
from assay.views.tui.help import HelpScreen
from assay.views.tui.keys import in_use
from assay.views.tui.label_panel import LabelPanel
from assay.views.tui.panel import Panel
from assay.views.tui.panels import BY_ID, PANELS
from assay.views.tui.search import Query, find, query
from assay.views.tui.settings import ExplorerSettings
from assay.views.tui.sheets.tree_columns import GROUPS
from assay.views.tui.subject import ExploredModel
from assay.views.tui.treetable import Tab, TreeTable

BIGGEST = 50
NARROWEST, WIDEST = 20, 80
"""Of the right panels, in percent of the screen."""
SORTED = "This is a list: 0 goes back to the tree."


class Actions(App[None]):
    """The verbs of the explorer; what they work on is made by the explorer itself."""

    table: TreeTable
    """The one table."""

    def __init__(self, subject: ExploredModel, remembered: ExplorerSettings, settings_file: Path | None) -> None:
        super().__init__()
        self.subject = subject
        self.remembered = remembered
        self.settings_file = settings_file
        self.query_now: Query | None = None
        self.panel_share = 45
        self.last_tab = "tree"
        self.panels: dict[str, Panel] = {}
        """Those that have been opened once."""
        self.label_panel: LabelPanel | None = None
        self.search_bar: SearchBar | None = None

    def tab_of(self, id: str) -> Tab:
        """The tab called `id`."""
        raise KeyError(id)

    def details_soon(self) -> None:
        """Look up details in a moment."""

    def tell_state(self) -> None:
        """Say below the table what is on show."""

    # Moving

    def action_cursor(self, step: int) -> None:
        """One row up or down."""
        self.table.move_to(self.table.rows.cursor + step)

    def action_page(self, step: int) -> None:
        """One screen up or down."""
        self.table.move_to(self.table.rows.cursor + step * self.table.page)

    def action_end(self, step: int) -> None:
        """To the first or last row."""
        self.table.move_to(0 if step < 0 else len(self.table.rows) - 1)

    def action_close_or_parent(self) -> None:
        """Close the row where it is open, else go to the one above it."""
        rows = self.table.rows
        if rows.row >= 0 and rows.is_open(rows.row):
            self.action_fold_row()
        elif rows.row >= 0 and not rows.flat and (above := int(rows.index.parent[rows.row])) >= 0:
            self.table.move_to(rows.position(above))

    async def action_open_or_view(self) -> None:
        """Open the row where it is closed, else go into it; a row with nothing below shows its details."""
        rows = self.table.rows
        if rows.row < 0:
            return
        if not rows.can_open(rows.row):
            await self.action_details()
        elif rows.is_open(rows.row):
            self.action_cursor(1)
        else:
            self.action_fold_row()

    def action_shift_columns(self, step: int) -> None:
        """Show other columns."""
        self.table.shift_columns(step)

    # Folding

    def action_fold_row(self) -> None:
        """Open or close the row."""
        rows = self.table.rows
        if rows.flat:
            self.tell(SORTED)
        elif rows.row >= 0:
            rows.toggle(rows.row)
            self.table.changed()

    def action_fold(self, verb: str) -> None:
        """Open or close many rows."""
        if self.table.rows.flat:
            self.tell(SORTED)
            return
        fold(self.table.sheet, self.table.rows, verb)
        self.table.changed()

    # Display

    def action_components(self, group: str) -> None:
        """Show all that a key stands for, or hide it where all of it is on show."""
        members = [each for each in self.table.tab.components if each.column.id in GROUPS[group]]
        if not members:
            self.tell(f"This tab has no {group} to show.")
            return
        on = not all(each.on for each in members)
        for each in members:
            each.on = on
        self.labels_changed()

    def action_align(self) -> None:
        """Columns, or labels one after the other."""
        self.table.aligned = not self.table.aligned
        self.remember(replace(self.remembered, aligned=self.table.aligned))

    def labels_changed(self) -> None:
        """Draw other components and remember them."""
        tab = self.table.tab
        tab.shifted = 0
        if self.label_panel is not None and not self.label_panel.has_focus:
            self.label_panel.show(tab.components)
        self.table.changed()
        chosen = {tab.sheet.remembered_as or tab.sheet.id: labelling.labels(tab.components)}
        self.remember(replace(self.remembered, labels={**self.remembered.labels, **chosen}))

    def remember(self, settings: ExplorerSettings) -> None:
        """Keep settings for the next time."""
        self.remembered = settings
        if self.settings_file is not None:
            self.tell(remembering.save(settings, self.settings_file), bad=True)

    # Panels

    async def action_panel(self, id: str) -> None:
        """Show or hide a panel."""
        panel = await self._panel(id)
        panel.toggle_class("-open")
        if panel.has_focus and not panel.is_open:
            self.go_to(self.table)
        self._arrange()

    async def _panel(self, id: str) -> Panel:
        """The panel, made when it is first wanted, in its place among the others."""
        if not self.panels:
            await self.query_one("#middle").mount(Vertical(id="right"))
        if id not in self.panels:
            self.panels[id] = Panel(BY_ID[id])
            order = [kind.id for kind in PANELS]
            after = [self.panels[each] for each in order[order.index(id) + 1 :] if each in self.panels]
            await self.query_one("#right").mount(self.panels[id], before=after[0] if after else None)
        return self.panels[id]

    async def action_details(self) -> None:
        """Go into the details; the attributes are shown where no panel is."""
        shown = [panel for panel in self.panels.values() if panel.is_open]
        if shown:
            self.go_to(shown[0])
        else:
            await self.action_panel("attributes")

    def action_panel_width(self, step: int) -> None:
        """More or less room for the panels."""
        self.panel_share = max(NARROWEST, min(self.panel_share + step, WIDEST))
        self._arrange()

    def _arrange(self) -> None:
        for right in self.query("#right"):
            right.set_class(any(panel.is_open for panel in self.panels.values()), "-open")
            right.styles.width = f"{self.panel_share}%"
        self.details_soon()

    async def action_labels(self) -> None:
        """Show or hide the label panel."""
        if self.label_panel is None:
            self.label_panel = LabelPanel()
            await self.query_one("#middle").mount(self.label_panel, before=0)
        panel = self.label_panel
        panel.toggle_class("-open")
        if panel.has_class("-open"):
            panel.show(self.table.tab.components)
            self.go_to(panel)
        else:
            self.go_to(self.table)

    def action_help(self) -> None:
        """Every key."""
        self.push_screen(HelpScreen(in_use(self.remembered.keymap)))

    async def action_leave(self) -> None:
        """Close the nearest thing that is open."""
        if self.label_panel is not None and self.label_panel.has_class("-open"):
            await self.action_labels()
        elif self.query_now is not None or (self.search_bar is not None and self.search_bar.has_class("-open")):
            self.action_clear_search()
        elif not self.table.has_focus:
            self.go_to(self.table)
        elif self.table.tab.sorted_by and not self.table.sheet.sorted_by:
            self.action_unsort()
        else:
            for panel in self.panels.values():
                panel.remove_class("-open")
            self._arrange()

    # Searching and sorting

    async def action_search(self) -> None:
        """Type a pattern."""
        if self.search_bar is None:
            self.search_bar = SearchBar()
            await self.screen.mount(self.search_bar, before=self.query_one(StatusLine))
        self.search_bar.add_class("-open")
        self.go_to(self.search_bar)

    def action_clear_search(self) -> None:
        """Show everything again."""
        if self.search_bar is not None:
            self.search_bar.remove_class("-open")
            self.search_bar.value = ""
        self.search_for("")
        self.go_to(self.table)

    def search_for(self, text: str) -> None:
        """Show what matches `text`; everything where it is empty."""
        tab = self.table.tab
        if not text and self.query_now is None:
            return
        self.query_now = query(text) if text else None
        tab.rows.filter(find(tab.sheet, self.query_now) if self.query_now else None)
        if not tab.rows.flat:
            tab.sorted_by, tab.most = "", None
        self.table.changed()

    def action_match(self, step: int) -> None:
        """The next match in that direction."""
        if self.table.rows.next_match(step):
            self.table.move_to(self.table.rows.cursor)
        else:
            self.tell("Nothing is searched for: / begins." if self.query_now is None else "Nothing matches.")

    def sort_by(self, id: str, *, descending: bool, most: int | None = None) -> None:
        """A list by one component."""
        tab = self.table.tab
        column = next((each.column for each in tab.components if each.column.id == id), None)
        if column is None or not len(tab.sheet.index):
            return
        tab.sorted_by, tab.descending, tab.most = id, descending, most
        tab.rows.sort(column.values.keys(), descending=descending, most=most)
        self.table.changed()

    def action_sort(self, step: int) -> None:
        """By the next column on show, in that direction."""
        columns = self.table.tab.columns
        ids = [column.id for column in columns]
        if not ids:
            return
        now = self.table.tab.sorted_by
        at = (ids.index(now) + step) % len(ids) if now in ids else (0 if step > 0 else len(ids) - 1)
        self.sort_by(ids[at], descending=columns[at].right)

    def action_reverse(self) -> None:
        """The other way round."""
        tab = self.table.tab
        if tab.sorted_by:
            self.sort_by(tab.sorted_by, descending=not tab.descending, most=tab.most)
        else:
            self.tell("Nothing is sorted: ] sorts by the next column.")

    def action_unsort(self) -> None:
        """The tree again."""
        tab = self.table.tab
        tab.sorted_by, tab.most = "", None
        tab.rows.unsort()
        self.table.changed()

    def action_biggest(self) -> None:
        """The biggest few by what matters most in this tab; again goes back."""
        tab = self.table.tab
        if tab.most:
            self.action_unsort()
        else:
            self.sort_by(tab.sheet.biggest, descending=True, most=BIGGEST)

    def action_hold_class(self) -> None:
        """Keep rows of this class highlighted while the cursor goes elsewhere; again lets go."""
        tab, row = self.table.tab, self.table.rows.row
        kind = int(tab.sheet.kinds.ids[row]) if row >= 0 and tab.sheet.kinds[row] is not None else None
        tab.held = None if tab.held == kind else kind
        self.table.refresh()

    # Tabs

    def action_tab(self, id: str) -> None:
        """Show another tab, as it was left; the search stays with its tab."""
        now = self.table.sheet.id
        if id == now:
            return
        if self.query_now is not None:
            self.action_clear_search()
        self.last_tab = now
        self.query_one(TabBar).active = id
        self.table.show(self.tab_of(id))
        if self.label_panel is not None:
            self.label_panel.show(self.table.tab.components)

    def action_unique(self) -> None:
        """Unique modules, or back to where one came from."""
        self.action_tab(self.last_tab if self.table.sheet.id == "unique" else "unique")

    # Copying and exporting

    def action_copy(self, what: str) -> None:
        """Copy the row's path, or everything known of it."""
        row = self.table.rows.row
        if row < 0:
            return
        sheet = self.table.sheet
        text = sheet.path(row) if what == "path" else msgspec.json.encode(sheet.record(row)).decode()
        how = clipboard.copy(text, self.copy_to_clipboard)
        self.tell(f"{'Path' if what == 'path' else 'JSON'} copied through {how}.")

    def action_export(self) -> None:
        """Write the view into a file."""
        self.push_screen(export.ExportScreen(), self._export)

    def _export(self, form: str | None) -> None:
        if form is not None:
            # The picture is of the table, not of the question that has just been answered.
            self.call_after_refresh(partial(self._write, form))

    def _write(self, form: str) -> None:
        try:
            path = export.write(self.table.tab, form, self.subject.document.model_class, self.export_screenshot)
        except AssayError as error:
            self.tell(str(error), bad=True)
        else:
            self.tell(f"Written: {path.name}")

    def go_to(self, widget: Widget) -> None:
        """Give the keys to a widget at once: what is typed fast must not go astray."""
        self.screen_stack[0].set_focus(widget)

    def tell(self, text: str, *, bad: bool = False) -> None:
        """A word that goes away by itself."""
        if text:
            self.notify(text, markup=False, severity="warning" if bad else "information", timeout=4)

    def runner(self, action: str) -> Callable[[], None]:
        """Runs an action from the palette."""

        def run() -> None:
            self.call_later(self.run_action, action)

        return run
