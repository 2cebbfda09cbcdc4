"""All keys of the explorer in one table, from which bindings, help, palette and keymap are made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from textual.binding import Binding, BindingType

TABLE, LABELS, PANEL, HELP = "table", "labels", "panel", "help"
"""Where a key works: in the table, the column panel, a right panel or the help window."""


class Key(NamedTuple):
    """One action and its keys."""

    id: str
    """A stable name, used in keymaps."""
    keys: str
    action: str
    text: str
    group: str
    where: str = TABLE
    short: str = ""
    """Its label in the footer; empty if it is not shown there."""


NAVIGATION, FOLDING, DISPLAY, PANELS, LABEL_PANEL, SEARCH, TABS, OTHER = (
    "Navigation", "Folding", "Display", "Panels", "Column panel", "Search and sort", "Tabs", "Copy, export, more",
)  # fmt: skip

KEYS = (
    Key("up", "up,k", "cursor(-1)", "Move up", NAVIGATION),
    Key("down", "down,j", "cursor(1)", "Move down", NAVIGATION),
    Key("left", "left,h", "close_or_parent", "Collapse the row, or go to its parent", NAVIGATION),
    Key("right", "right,l", "open_or_view", "Expand the row, enter it, or show its details", NAVIGATION),
    Key("toggle", "space", "fold_row", "Fold or unfold the selected row", NAVIGATION, short="fold"),
    Key("details", "enter", "details", "Show or focus the details of the selected row", NAVIGATION, short="details"),
    Key("page-up", "pageup", "page(-1)", "One page up", NAVIGATION),
    Key("page-down", "pagedown", "page(1)", "One page down", NAVIGATION),
    Key("home", "home", "end(-1)", "First row", NAVIGATION),
    Key("end", "end", "end(1)", "Last row", NAVIGATION),
    Key("columns-left", "shift+left", "shift_columns(-1)", "Show columns further left", NAVIGATION),
    Key("columns-right", "shift+right", "shift_columns(1)", "Show columns further right", NAVIGATION),
    Key("fold-subtree", "z", "fold('subtree')", "Fold or unfold the subtree under the selected row", FOLDING),
    Key("fold-all", "Z", "fold('all')", "Fold or unfold everything", FOLDING, short="all"),
    Key("fold-siblings", "s", "fold('siblings')", "Fold or unfold siblings", FOLDING),
    Key("fold-siblings-deep", "S", "fold('siblings_deep')", "Fold or unfold siblings and their subtrees", FOLDING),
    Key("fold-class", "o", "fold('same')", "Fold or unfold rows of the same class", FOLDING),
    Key("fold-class-deep", "O", "fold('same_deep')", "Fold or unfold the same class and its subtrees", FOLDING),
    Key("show-shapes", "t", "components('shapes')", "Parameter shapes", DISPLAY),
    Key("show-memory", "b", "components('memory')", "Memory", DISPLAY),
    Key("show-counts", "p", "components('counts')", "Parameter counts", DISPLAY),
    Key("show-device", "d", "components('device')", "Device and dtype", DISPLAY),
    Key("show-forward", "f", "components('forward')", "Forward statistics: shapes, calls, time", DISPLAY),
    Key("align", "A", "align", "Switch between aligned and inline columns", DISPLAY),
    Key("panel-code", "c", "panel('code')", "Source code", PANELS, short="code"),
    Key("panel-attributes", "a", "panel('attributes')", "Attributes and tensors", PANELS, short="attributes"),
    Key("panel-forward", "F", "panel('forward')", "Recorded forward calls", PANELS),
    Key("panel-findings", "W", "panel('findings')", "Findings on the selected module", PANELS),
    Key("panel-flow", "T", "panel('flow')", "Tensor flow into and out of the selected module", PANELS),
    Key("panel-labels", "L", "labels", "Select and reorder columns", PANELS, short="columns"),
    Key("panel-wider", "<", "panel_width(5)", "Widen the right panels", PANELS),
    Key("panel-narrower", ">", "panel_width(-5)", "Narrow the right panels", PANELS),
    Key("next-panel", "tab", "focus_next", "Go to the next panel", PANELS),
    Key("help", "?", "help", "Show this help", PANELS, short="help"),
    Key("close", "escape", "leave", "Close, clear or go back", PANELS),
    Key("help-close", "enter,escape,q,?", "app.pop_screen", "Close the help window", PANELS, HELP),
    Key("label-toggle", "space,enter", "tick", "Show or hide the selected column", LABEL_PANEL, LABELS),
    Key("label-down", "J,shift+j", "move(1)", "Move the selected column down", LABEL_PANEL, LABELS),
    Key("label-up", "K,shift+k", "move(-1)", "Move the selected column up", LABEL_PANEL, LABELS),
    Key("label-next", "down,j", "cursor_down", "Select the next column", LABEL_PANEL, LABELS),
    Key("label-previous", "up,k", "cursor_up", "Select the previous column", LABEL_PANEL, LABELS),
    Key("label-reset", "R", "reset", "Restore the default columns", LABEL_PANEL, LABELS),
    Key("label-close", "escape,L", "app.labels", "Close the column panel", LABEL_PANEL, LABELS),
    Key("search", "/", "search", "Search as you type (regular expression)", SEARCH, short="search"),
    Key("search-next", "n", "match(1)", "Next match", SEARCH),
    Key("search-previous", "N", "match(-1)", "Previous match", SEARCH),
    Key("search-clear", "backspace", "clear_search", "Clear the search", SEARCH),
    Key("sort-next", "]", "sort(1)", "Sort by the next column", SEARCH),
    Key("sort-previous", "[", "sort(-1)", "Sort by the previous column", SEARCH),
    Key("sort-reverse", "r", "reverse", "Reverse the order", SEARCH),
    Key("sort-off", "0", "unsort", "Back to the tree", SEARCH),
    Key("biggest", "B", "biggest", "Show the 50 largest rows", SEARCH, short="largest"),
    Key("same-class", "*", "pin_class", "Keep rows of this class highlighted", SEARCH),
    Key("tab-tree", "1", "tab('tree')", "Tree", TABS),
    Key("tab-unique", "2", "tab('unique')", "Unique modules", TABS),
    Key("tab-ops", "3", "tab('ops')", "Ops", TABS),
    Key("tab-parameters", "4", "tab('parameters')", "Parameters", TABS),
    Key("tab-time", "5", "tab('time')", "Time", TABS),
    Key("tab-findings", "6", "tab('findings')", "Findings", TABS),
    Key("unique", "u", "unique", "Switch to unique modules and back", TABS),
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
"""The ids of the keys in the footer, which shows as many as fit."""


PRIORITY_ACTIONS = ("search", "labels", "help", "export")
"""Actions that move the focus: they run before any key typed after them is handled."""


def bindings(*places: str) -> list[BindingType]:
    """The bindings of the keys that work in `places`."""
    return [
        Binding(key.keys, key.action, key.text, show=False, id=key.id, priority=key.action in PRIORITY_ACTIONS)
        for key in KEYS
        if key.where in places
    ]


def with_keymap(keymap: Mapping[str, str]) -> list[Key]:
    """All keys, with those in `keymap` replaced."""
    return [key._replace(keys=keymap.get(key.id, key.keys)) for key in KEYS]


def groups(keys: Iterable[Key]) -> dict[str, list[Key]]:
    """The keys by group."""
    by_group: dict[str, list[Key]] = {}
    for key in keys:
        by_group.setdefault(key.group, []).append(key)
    return by_group


_KEY_NAMES = {
    "up": "↑", "down": "↓", "left": "←", "right": "→", "shift+left": "Shift+←", "shift+right": "Shift+→",
    "pageup": "PgUp", "pagedown": "PgDn", "home": "Home", "end": "End", "escape": "Esc", "enter": "Enter",
    "tab": "Tab", "backspace": "Backspace", "ctrl+p": "Ctrl+P", "J": "Shift+J", "K": "Shift+K",
}  # fmt: skip


def keys_text(keys: str) -> str:
    """Keys as shown to the user: `keys_text("up,k") == "↑ / k"`."""
    return " / ".join(dict.fromkeys(_KEY_NAMES.get(key, key) for key in keys.split(",") if not _is_alias(key)))


def _is_alias(key: str) -> bool:
    """Whether the key is the other name that some terminals use for a capital letter, such as `shift+j`."""
    return key.startswith("shift+") and len(key) == len("shift+") + 1
