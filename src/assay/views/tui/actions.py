"""The actions of the explorer, as the table of keys names them."""

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
from assay.views.tui.keys import with_keymap
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
"""Limits of the width of the right panels, in percent of the screen."""
SORTED = "Rows of a sorted list cannot be folded: press 0 for the tree."


class Actions(App[None]):
    """The actions of the explorer; `Explorer` creates the widgets they work on."""

    table: TreeTable

    def __init__(self, subject: ExploredModel, remembered: ExplorerSettings, settings_file: Path | None) -> None:
        super().__init__()
        self.subject = subject
        self.remembered = remembered
        self.settings_file = settings_file
        self.query_now: Query | None = None
        self.panel_share = 45
        self.last_tab = "tree"
        self.panels: dict[str, Panel] = {}
        """Panels that have been opened at least once, by id."""
        self.label_panel: LabelPanel | None = None
        self.search_bar: SearchBar | None = None

    def tab_of(self, id: str) -> Tab:
        """The tab with this id."""
        raise KeyError(id)

    def update_details_soon(self) -> None:
        """Update the open panels after a short delay."""

    def update_status(self) -> None:
        """Update the status line below the table."""

    # Moving

    def action_cursor(self, step: int) -> None:
        """Move the cursor by `step` rows."""
        self.table.move_to(self.table.rows.cursor + step)

    def action_page(self, step: int) -> None:
        """Move the cursor by `step` screens."""
        self.table.move_to(self.table.rows.cursor + step * self.table.page)

    def action_end(self, step: int) -> None:
        """Move the cursor to the first row (`step` < 0) or the last one."""
        self.table.move_to(0 if step < 0 else len(self.table.rows) - 1)

    def action_close_or_parent(self) -> None:
        """Collapse the row if it is expanded, otherwise go to its parent."""
        rows = self.table.rows
        if rows.row >= 0 and rows.is_open(rows.row):
            self.action_fold_row()
        elif rows.row >= 0 and not rows.flat and (above := int(rows.index.parent[rows.row])) >= 0:
            self.table.move_to(rows.position(above))

    async def action_open_or_view(self) -> None:
        """Expand the row, or go to its first child if it is expanded; a leaf shows its details."""
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
        """Scroll the columns sideways."""
        self.table.shift_columns(step)

    # Folding

    def action_fold_row(self) -> None:
        """Expand or collapse the selected row."""
        rows = self.table.rows
        if rows.flat:
            self.show_message(SORTED)
        elif rows.row >= 0:
            rows.toggle(rows.row)
            self.table.changed()

    def action_fold(self, verb: str) -> None:
        """Expand or collapse several rows; `verb` is a key of `folds.VERBS`."""
        if self.table.rows.flat:
            self.show_message(SORTED)
            return
        fold(self.table.sheet, self.table.rows, verb)
        self.table.changed()

    # Display

    def action_components(self, group: str) -> None:
        """Show all columns of a group, or hide them if all are visible."""
        members = [each for each in self.table.tab.components if each.column.id in GROUPS[group]]
        if not members:
            self.show_message(f"This tab has no {group} to show.")
            return
        on = not all(each.on for each in members)
        for each in members:
            each.on = on
        self.labels_changed()

    def action_align(self) -> None:
        """Switch between aligned columns and inline labels."""
        self.table.aligned = not self.table.aligned
        self.remember(replace(self.remembered, aligned=self.table.aligned))

    def labels_changed(self) -> None:
        """Redraw the table after its columns have changed, and save the choice."""
        tab = self.table.tab
        tab.shifted = 0
        if self.label_panel is not None and not self.label_panel.has_focus:
            self.label_panel.show(tab.components)
        self.table.changed()
        labels = {tab.sheet.remembered_as or tab.sheet.id: labelling.labels(tab.components)}
        self.remember(replace(self.remembered, labels={**self.remembered.labels, **labels}))

    def remember(self, settings: ExplorerSettings) -> None:
        """Save the settings for the next session."""
        self.remembered = settings
        if self.settings_file is not None:
            self.show_message(remembering.save(settings, self.settings_file), is_warning=True)

    # Panels

    async def action_panel(self, id: str) -> None:
        """Show or hide a panel."""
        panel = await self._panel(id)
        panel.toggle_class("-open")
        if panel.has_focus and not panel.is_open:
            self.focus_now(self.table)
        self._arrange()

    async def _panel(self, id: str) -> Panel:
        """The panel with this id, created and mounted in order when it is first opened."""
        if not self.panels:
            await self.query_one("#middle").mount(Vertical(id="right"))
        if id not in self.panels:
            self.panels[id] = Panel(BY_ID[id])
            order = [kind.id for kind in PANELS]
            after = [self.panels[each] for each in order[order.index(id) + 1 :] if each in self.panels]
            await self.query_one("#right").mount(self.panels[id], before=after[0] if after else None)
        return self.panels[id]

    async def action_details(self) -> None:
        """Focus the first open panel; if none is open, open the attributes."""
        shown = [panel for panel in self.panels.values() if panel.is_open]
        if shown:
            self.focus_now(shown[0])
        else:
            await self.action_panel("attributes")

    def action_panel_width(self, step: int) -> None:
        """Make the right panels wider or narrower by `step` percent of the screen."""
        self.panel_share = max(NARROWEST, min(self.panel_share + step, WIDEST))
        self._arrange()

    def _arrange(self) -> None:
        for right in self.query("#right"):
            right.set_class(any(panel.is_open for panel in self.panels.values()), "-open")
            right.styles.width = f"{self.panel_share}%"
        self.update_details_soon()

    async def action_labels(self) -> None:
        """Show or hide the label panel."""
        if self.label_panel is None:
            self.label_panel = LabelPanel()
            await self.query_one("#middle").mount(self.label_panel, before=0)
        panel = self.label_panel
        panel.toggle_class("-open")
        if panel.has_class("-open"):
            panel.show(self.table.tab.components)
            self.focus_now(panel)
        else:
            self.focus_now(self.table)

    def action_help(self) -> None:
        """Show all keys."""
        self.push_screen(HelpScreen(with_keymap(self.remembered.keymap)))

    async def action_leave(self) -> None:
        """Close the label panel, else the search, else leave the focused panel, the sorting or all panels."""
        if self.label_panel is not None and self.label_panel.has_class("-open"):
            await self.action_labels()
        elif self.query_now is not None or (self.search_bar is not None and self.search_bar.has_class("-open")):
            self.action_clear_search()
        elif not self.table.has_focus:
            self.focus_now(self.table)
        elif self.table.tab.sorted_by and not self.table.sheet.sorted_by:
            self.action_unsort()
        else:
            for panel in self.panels.values():
                panel.remove_class("-open")
            self._arrange()

    # Searching and sorting

    async def action_search(self) -> None:
        """Open the search bar."""
        if self.search_bar is None:
            self.search_bar = SearchBar()
            await self.screen.mount(self.search_bar, before=self.query_one(StatusLine))
        self.search_bar.add_class("-open")
        self.focus_now(self.search_bar)

    def action_clear_search(self) -> None:
        """Clear the search and show all rows."""
        if self.search_bar is not None:
            self.search_bar.remove_class("-open")
            self.search_bar.value = ""
        self.search_for("")
        self.focus_now(self.table)

    def search_for(self, text: str) -> None:
        """Show the rows that match `text`; all rows if it is empty."""
        tab = self.table.tab
        if not text and self.query_now is None:
            return
        self.query_now = query(text) if text else None
        tab.rows.filter(find(tab.sheet, self.query_now) if self.query_now else None)
        if not tab.rows.flat:
            tab.sorted_by, tab.limit = "", None
        self.table.changed()

    def action_match(self, step: int) -> None:
        """Go to the next match, or to the previous one if `step` is negative."""
        if self.table.rows.next_match(step):
            self.table.move_to(self.table.rows.cursor)
        else:
            self.show_message("No search: press / to start one." if self.query_now is None else "No matches.")

    def sort_by(self, id: str, *, descending: bool, limit: int | None = None) -> None:
        """Show the rows as a list sorted by the column `id`, at most `limit` of them."""
        tab = self.table.tab
        column = next((each.column for each in tab.components if each.column.id == id), None)
        if column is None or not len(tab.sheet.index):
            return
        tab.sorted_by, tab.descending, tab.limit = id, descending, limit
        tab.rows.sort(column.values.keys(), descending=descending, limit=limit)
        self.table.changed()

    def action_sort(self, step: int) -> None:
        """Sort by the next visible column, or by the previous one if `step` is negative."""
        columns = self.table.tab.columns
        ids = [column.id for column in columns]
        if not ids:
            return
        current = self.table.tab.sorted_by
        at = (ids.index(current) + step) % len(ids) if current in ids else (0 if step > 0 else len(ids) - 1)
        self.sort_by(ids[at], descending=columns[at].right)

    def action_reverse(self) -> None:
        """Reverse the sort order."""
        tab = self.table.tab
        if tab.sorted_by:
            self.sort_by(tab.sorted_by, descending=not tab.descending, limit=tab.limit)
        else:
            self.show_message("Not sorted: press ] to sort by the next column.")

    def action_unsort(self) -> None:
        """Show the tree instead of a sorted list."""
        tab = self.table.tab
        tab.sorted_by, tab.limit = "", None
        tab.rows.unsort()
        self.table.changed()

    def action_biggest(self) -> None:
        """Show the largest rows by the main column of this tab; a second call returns to the tree."""
        tab = self.table.tab
        if tab.limit:
            self.action_unsort()
        else:
            self.sort_by(tab.sheet.biggest, descending=True, limit=BIGGEST)

    def action_pin_class(self) -> None:
        """Keep rows of this class highlighted while the cursor moves; a second call unpins the class."""
        tab, row = self.table.tab, self.table.rows.row
        kind = int(tab.sheet.kinds.ids[row]) if row >= 0 and tab.sheet.kinds[row] is not None else None
        tab.pinned_kind = None if tab.pinned_kind == kind else kind
        self.table.refresh()

    # Tabs

    def action_tab(self, id: str) -> None:
        """Show another tab as it was left; the search in the current tab is cleared."""
        current = self.table.sheet.id
        if id == current:
            return
        if self.query_now is not None:
            self.action_clear_search()
        self.last_tab = current
        self.query_one(TabBar).active = id
        self.table.show(self.tab_of(id))
        if self.label_panel is not None:
            self.label_panel.show(self.table.tab.components)

    def action_unique(self) -> None:
        """Show the unique modules, or return to the previous tab."""
        self.action_tab(self.last_tab if self.table.sheet.id == "unique" else "unique")

    # Copying and exporting

    def action_copy(self, what: str) -> None:
        """Copy the row's path (`what` is `path`), or all its values as JSON."""
        row = self.table.rows.row
        if row < 0:
            return
        sheet = self.table.sheet
        text = sheet.path(row) if what == "path" else msgspec.json.encode(sheet.record(row)).decode()
        channel = clipboard.copy(text, self.copy_to_clipboard)
        self.show_message(f"{'Path' if what == 'path' else 'JSON'} copied via {channel}.")

    def action_export(self) -> None:
        """Ask for a format and write the view to a file."""
        self.push_screen(export.ExportScreen(), self._export)

    def _export(self, form: str | None) -> None:
        if form is not None:
            # The screenshot must show the table, not the dialog that has just been closed.
            self.call_after_refresh(partial(self._write, form))

    def _write(self, form: str) -> None:
        try:
            path = export.write(self.table.tab, form, self.subject.document.model_class, self.export_screenshot)
        except AssayError as error:
            self.show_message(str(error), is_warning=True)
        else:
            self.show_message(f"Saved as {path.name}")

    def focus_now(self, widget: Widget) -> None:
        """Focus a widget immediately, so that it receives keys typed right after."""
        self.screen_stack[0].set_focus(widget)

    def show_message(self, text: str, *, is_warning: bool = False) -> None:
        """Show a notification for four seconds; nothing if `text` is empty."""
        if text:
            self.notify(text, markup=False, severity="warning" if is_warning else "information", timeout=4)

    def runner(self, action: str) -> Callable[[], None]:
        """A function that runs an action, for the command palette."""

        def run() -> None:
            self.call_later(self.run_action, action)

        return run
