"""The selected row and the styles that a panel needs to render its content."""

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
    """The index of the row's module; -1 if it has none."""
    tensor: tuple[str, str] | None
    """Module path and local name, if the row is a tensor."""
    styles: Mapping[str, Style]
    """Styles by name: `error`, `warning`, `success`, `accent`."""
    dark: bool
    background: str = "default"
    """The panel's background as a rich colour."""
    width: int = 80
    """The width of the panel in terminal cells."""
    cancelled: Callable[[], bool] = lambda: False
    """Whether another row has been selected, so that the content is no longer needed."""

    @property
    def row(self) -> Module:
        """The module of the row; only valid if `module` is not -1."""
        return self.subject.document.modules[self.module]


def plain(text: str, style: str | Style = "") -> Text:
    """Text without markup, with control characters made visible except line breaks."""
    return Text("\n".join(printable(line) for line in text.split("\n")), style=style)


def line(*parts: tuple[str, str | Style]) -> Text:
    """One line of styled parts."""
    text = Text()
    for content, style in parts:
        text.append(printable(content), style)
    return text
