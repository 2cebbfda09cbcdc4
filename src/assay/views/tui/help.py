"""The help window, generated from the table of keys."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from assay.views.tui.keys import HELP, Key, bindings, groups, keys_text


class HelpScreen(ModalScreen[None]):
    """A dialog with all keys and what they do."""

    BINDINGS = bindings(HELP)

    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen > VerticalScroll {
        width: 80; max-width: 100%; max-height: 90%; height: auto;
        border: round $primary; background: $surface; padding: 0 2;
    }
    HelpScreen Static { width: 1fr; height: auto; }
    """

    def __init__(self, keys: Sequence[Key]) -> None:
        super().__init__()
        self._keys = keys

    def compose(self) -> ComposeResult:
        with VerticalScroll() as scroll:
            scroll.border_title = "Keys"
            scroll.border_subtitle = "Enter or Esc to close"
            yield Static(help_text(self._keys), markup=False)


def help_text(keys: Sequence[Key]) -> Text:
    """The keys and their descriptions, by group."""
    text = Text()
    width = max(len(keys_text(key.keys)) for key in keys) + 2
    for group, members in groups(keys).items():
        text.append(f"\n{group}\n", "bold")
        for key in members:
            text.append(f"  {keys_text(key.keys):<{width}}", "bold")
            text.append(f"{key.text}\n")
    return text
