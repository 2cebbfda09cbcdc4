"""What a panel is asked about, and how its answer may look."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rich.style import Style
from rich.text import Text

from assay.document.rows import Module
from assay.views.tables import printable
from assay.views.tui.subject import ExploredModel


@dataclass(frozen=True)
class PanelContext:
    """The selected row, and the colours of the theme."""

    subject: ExploredModel
    module: int
    """-1 where the row is about none."""
    tensor: tuple[str, str] | None
    """Module path and local name, where the row is a tensor."""
    styles: Mapping[str, Style]
    """`error`, `warning`, `success`, `accent`."""
    dark: bool
    background: str = "default"
    """Of the panel, as rich writes colours."""
    width: int = 80
    """Cells of a line in the panel."""
    cancelled: Callable[[], bool] = lambda: False
    """Whether somebody has moved on and the answer is no longer wanted."""

    @property
    def row(self) -> Module:
        """The module as the document has it, where the row is about one."""
        return self.subject.document.modules[self.module]


def plain(text: str, style: str | Style = "") -> Text:
    """Text that is never markup and that no terminal obeys; line ends stay."""
    return Text("\n".join(printable(line) for line in text.split("\n")), style=style)


def line(*parts: tuple[str, str | Style]) -> Text:
    """One line of styled parts."""
    text = Text()
    for content, style in parts:
        text.append(printable(content), style)
    return text
