"""The panels on the right: each answers, off the screen's thread, what it shows of the selected row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import NamedTuple

from rich.console import RenderableType
from rich.text import Text

from assay.views.tui.panels.context import PanelContext


class PanelKind(NamedTuple):
    """A panel before it is opened."""

    id: str
    title: str
    wraps: bool = True
    """Whether long lines are folded; else one scrolls."""
    of_tensors: bool = False
    """Whether it has something to say about a tensor that no module of the document holds."""


PANELS = (
    PanelKind("code", "Code", wraps=False),
    PanelKind("attributes", "Attributes", of_tensors=True),
    PanelKind("forward", "Forward calls"),
    PanelKind("findings", "Findings"),
    PanelKind("flow", "Tensor flow"),
)
BY_ID = {kind.id: kind for kind in PANELS}


def answers(kind: PanelKind, context: PanelContext) -> Iterator[RenderableType]:
    """What the panel shows: at first what is known at once, then more as it is found out."""
    if context.module < 0 and not (kind.of_tensors and context.tensor):
        return iter([Text("Select a module.", style="dim")])
    answer: Callable[[PanelContext], Iterator[RenderableType]] = import_module(f"{__name__}.{kind.id}").answers
    return answer(context)
