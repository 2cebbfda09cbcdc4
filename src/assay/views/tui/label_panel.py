"""The column panel, which selects and orders the columns of a tab."""

from __future__ import annotations

from rich.text import Text
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from assay.views.tui.keys import LABELS, bindings
from assay.views.tui.labels import Component, move


class LabelPanel(OptionList):
    """A checklist of the columns of the current tab, which can be reordered."""

    BINDINGS = bindings(LABELS)

    DEFAULT_CSS = """
    LabelPanel {
        width: 30;
        height: 1fr;
        border: round $foreground 30%;
        border-title-color: $text-muted;
        background: $background;
        scrollbar-size-vertical: 1;
        display: none;
        padding: 0;
    }
    LabelPanel:focus { border: round $border; border-title-color: $text-primary; }
    LabelPanel.-open { display: block; }
    """

    class Changed(Message):
        """Columns were shown, hidden or moved."""

    class Reset(Message):
        """The user asked for the default columns."""

    def __init__(self) -> None:
        super().__init__(id="labels", markup=False)
        self.border_title = "Columns"
        self.border_subtitle = "space: show  J/K: move"
        self._components: list[Component] = []

    def show(self, components: list[Component]) -> None:
        """List `components`; the panel changes this list in place."""
        self._components = components
        self._list(self.highlighted or 0)

    def action_tick(self) -> None:
        """Show or hide the selected column."""
        if self.highlighted is None:
            return
        component = self._components[self.highlighted]
        component.on = not component.on
        self._list(self.highlighted)
        self.post_message(self.Changed())

    def action_move(self, step: int) -> None:
        """Move the selected column up or down."""
        if self.highlighted is None:
            return
        self._list(move(self._components, self.highlighted, step))
        self.post_message(self.Changed())

    def action_reset(self) -> None:
        """Restore the default columns and their order."""
        self.post_message(self.Reset())

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Show or hide the clicked column."""
        event.stop()
        self.highlighted = event.option_index
        self.action_tick()

    def _list(self, highlighted: int) -> None:
        self.clear_options()
        self.add_options(Option(_line(each)) for each in self._components)
        if self._components:
            self.highlighted = min(highlighted, len(self._components) - 1)


def _line(each: Component) -> Text:
    box = "[x] " if each.on else "[ ] "
    return Text(box + each.column.title, style="" if each.on else "dim")
