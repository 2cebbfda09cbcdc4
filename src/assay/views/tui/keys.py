"""Every key of the explorer, in one table: bindings, help, palette and keymap all come from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from textual.binding import Binding, BindingType

TABLE, LABELS, PANEL, HELP = "table", "labels", "panel", "help"
"""Where a key works: on the rows, in the label panel, in a panel on the right, in the help window."""


class Key(NamedTuple):
    """One thing that can be done, and the keys that do it."""

    id: str
    """Stable: what a keymap names it by."""
    keys: str
    action: str
    text: str
    group: str
    where: str = TABLE
    short: str = ""
    """Its word in the footer; empty where it is not shown there."""


NAVIGATION, FOLDING, DISPLAY, PANELS, LABEL_PANEL, SEARCH, TABS, OTHER = (
    "Navigation", "Folding", "Display", "Panels", "Label panel", "Search and sort", "Tabs", "Copy, export, more",
)  # fmt: skip

KEYS = (
    Key("up", "up,k", "cursor(-1)", "Move up", NAVIGATION),
    Key("down", "down,j", "cursor(1)", "Move down", NAVIGATION),
    Key("left", "left,h", "close_or_parent", "Collapse, else go to the parent", NAVIGATION),
    Key("right", "right,l", "open_or_view", "Expand, else view the selected module", NAVIGATION),
    Key("toggle", "space", "fold_row", "Fold or unfold the selected row", NAVIGATION, short="fold"),
    Key("details", "enter", "details", "Show details of the selected row, or go into them", NAVIGATION,
        short="details"),
    Key("page-up", "pageup", "page(-1)", "One page up", NAVIGATION),
    Key("page-down", "pagedown", "page(1)", "One page down", NAVIGATION),
    Key("home", "home", "end(-1)", "First row", NAVIGATION),
    Key("end", "end", "end(1)", "Last row", NAVIGATION),
    Key("columns-left", "shift+left", "shift_columns(-1)", "Show columns further left", NAVIGATION),
    Key("columns-right", "shift+right", "shift_columns(1)", "Show columns further right", NAVIGATION),
    Key("fold-subtree", "z", "fold('subtree')", "Fold or unfold the subtree under the selected row", FOLDING),
    Key("fold-all", "Z", "fold('all')", "Fold or unfold everything", FOLDING, short="all"),
    Key("fold-siblings", "s", "fold('siblings')", "Fold or unfold siblings", FOLDING),
    Key("fold-siblings-deep", "S", "fold('siblings_deep')", "Fold or unfold siblings and all below them", FOLDING),
    Key("fold-class", "o", "fold('same')", "Fold or unfold rows of the same class", FOLDING),
    Key("fold-class-deep", "O", "fold('same_deep')", "Fold or unfold rows of the same class and all below them",
        FOLDING),
    Key("show-shapes", "t", "components('shapes')", "Parameter shapes", DISPLAY),
    Key("show-memory", "b", "components('memory')", "Memory", DISPLAY),
    Key("show-counts", "p", "components('counts')", "Parameter counts", DISPLAY),
    Key("show-device", "d", "components('device')", "Device and element type", DISPLAY),
    Key("show-forward", "f", "components('forward')", "Forward statistics: shapes, calls, time", DISPLAY),
    Key("align", "A", "align", "Align siblings in columns, or let labels follow one another", DISPLAY),
    Key("panel-code", "c", "panel('code')", "Source code", PANELS, short="code"),
    Key("panel-attributes", "a", "panel('attributes')", "Attributes and tensors", PANELS, short="attributes"),
    Key("panel-forward", "F", "panel('forward')", "Every recorded forward call", PANELS),
    Key("panel-findings", "W", "panel('findings')", "Findings on the selected module", PANELS),
    Key("panel-flow", "T", "panel('flow')", "Tensor flow: what feeds it, what it feeds", PANELS),
    Key("panel-labels", "L", "labels", "Label components: which, in which order", PANELS, short="labels"),
    Key("panel-wider", "<", "panel_width(5)", "Expand the right panels", PANELS),
    Key("panel-narrower", ">", "panel_width(-5)", "Contract the right panels", PANELS),
    Key("next-panel", "tab", "focus_next", "Go to the next panel", PANELS),
    Key("help", "?", "help", "This help", PANELS, short="help"),
    Key("close", "escape", "leave", "Close, clear, go back", PANELS),
    Key("help-close", "enter,escape,q,?", "app.pop_screen", "Close the help window", PANELS, HELP),
    Key("label-toggle", "space,enter", "tick", "Show or hide the selected component", LABEL_PANEL, LABELS),
    Key("label-down", "J,shift+j", "move(1)", "Move the selected component down", LABEL_PANEL, LABELS),
    Key("label-up", "K,shift+k", "move(-1)", "Move the selected component up", LABEL_PANEL, LABELS),
    Key("label-next", "down,j", "cursor_down", "Select the next component", LABEL_PANEL, LABELS),
    Key("label-previous", "up,k", "cursor_up", "Select the component before", LABEL_PANEL, LABELS),
    Key("label-reset", "R", "reset", "The components as they were at first", LABEL_PANEL, LABELS),
    Key("label-close", "escape,L", "app.labels", "Close the label panel", LABEL_PANEL, LABELS),
    Key("search", "/", "search", "Search as you type (regular expression)", SEARCH, short="search"),
    Key("search-next", "n", "match(1)", "Next match", SEARCH),
    Key("search-previous", "N", "match(-1)", "Match before", SEARCH),
    Key("search-clear", "backspace", "clear_search", "Clear the search", SEARCH),
    Key("sort-next", "]", "sort(1)", "Sort by the next column", SEARCH),
    Key("sort-previous", "[", "sort(-1)", "Sort by the column before", SEARCH),
    Key("sort-reverse", "r", "reverse", "Reverse the order", SEARCH),
    Key("sort-off", "0", "unsort", "Back to the tree", SEARCH),
    Key("biggest", "B", "biggest", "The biggest 50", SEARCH, short="biggest"),
    Key("same-class", "*", "hold_class", "Keep rows of this class highlighted", SEARCH),
    Key("tab-tree", "1", "tab('tree')", "Tree", TABS),
    Key("tab-unique", "2", "tab('unique')", "Unique modules", TABS),
    Key("tab-ops", "3", "tab('ops')", "Operations", TABS),
    Key("tab-parameters", "4", "tab('parameters')", "Parameters", TABS),
    Key("tab-time", "5", "tab('time')", "Time", TABS),
    Key("tab-findings", "6", "tab('findings')", "Findings", TABS),
    Key("unique", "u", "unique", "Unique modules and back", TABS),
    Key("copy-path", "y", "copy('path')", "Copy the path", OTHER),
    Key("copy-json", "Y", "copy('json')", "Copy the row as JSON", OTHER),
    Key("export", "e", "export", "Export the view: text, JSON, CSV or SVG", OTHER, short="export"),
    Key("palette", "ctrl+p", "command_palette", "All commands", OTHER),
    Key("quit", "q", "quit", "Quit", OTHER, short="quit"),
    Key("panel-up", "k", "scroll_up", "Scroll up", PANELS, PANEL),
    Key("panel-down", "j", "scroll_down", "Scroll down", PANELS, PANEL),
)  # fmt: skip


FOOTER = (
    "help", "quit", "search", "toggle", "fold-all", "panel-code", "panel-attributes", "panel-labels", "details",
    "biggest", "export",
)  # fmt: skip
"""What the footer shows, as far as there is room."""


AT_ONCE = ("search", "labels", "help", "export")
"""Actions that give the keys to something else: they come before any key that was typed after them."""


def bindings(*places: str) -> list[BindingType]:
    """The bindings of these places."""
    return [
        Binding(key.keys, key.action, key.text, show=False, id=key.id, priority=key.action in AT_ONCE)
        for key in KEYS
        if key.where in places
    ]


def in_use(keymap: Mapping[str, str]) -> list[Key]:
    """The table with the keys that a keymap gives instead."""
    return [key._replace(keys=keymap.get(key.id, key.keys)) for key in KEYS]


def groups(keys: Iterable[Key]) -> dict[str, list[Key]]:
    """The keys by what they are for."""
    found: dict[str, list[Key]] = {}
    for key in keys:
        found.setdefault(key.group, []).append(key)
    return found


_WRITTEN = {
    "up": "↑", "down": "↓", "left": "←", "right": "→", "shift+left": "Shift+←", "shift+right": "Shift+→",
    "pageup": "PgUp", "pagedown": "PgDn", "home": "Home", "end": "End", "escape": "Esc", "enter": "Enter",
    "tab": "Tab", "backspace": "Backspace", "ctrl+p": "Ctrl+P", "J": "Shift+J", "K": "Shift+K",
}  # fmt: skip


def written(keys: str) -> str:
    """Keys as a person reads them: `written("up,k") == "↑ / k"`."""
    return " / ".join(dict.fromkeys(_WRITTEN.get(key, key) for key in keys.split(",") if not _is_double(key)))


def _is_double(key: str) -> bool:
    """Whether it is only another name that some terminals give a shifted letter."""
    return key.startswith("shift+") and len(key) == len("shift+") + 1
