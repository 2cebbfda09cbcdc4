"""The help window, made from the table of keys itself."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from assay.views.tui.keys import HELP, Key, bindings, groups, written


class HelpScreen(ModalScreen[None]):
    """Every key and what it does."""

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
            scroll.border_subtitle = "Enter or Esc closes"
            yield Static(help_text(self._keys), markup=False)


def help_text(keys: Sequence[Key]) -> Text:
    """The keys by what they are for."""
    text = Text()
    width = max(len(written(key.keys)) for key in keys) + 2
    for group, members in groups(keys).items():
        text.append(f"\n{group}\n", "bold")
        for key in members:
            text.append(f"  {written(key.keys):<{width}}", "bold")
            text.append(f"{key.text}\n")
    return text
