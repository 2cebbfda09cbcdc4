"""The panels on the right: each answers, off the screen's thread, what it shows of the selected row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import NamedTuple

from rich.console import RenderableType

from assay.views.tui.panels.context import PanelContext


class PanelKind(NamedTuple):
    """A panel before it is opened."""

    id: str
    title: str
    wraps: bool = True
    """Whether long lines are folded; else one scrolls."""


PANELS = (
    PanelKind("code", "Code", wraps=False),
    PanelKind("attributes", "Attributes"),
    PanelKind("forward", "Forward calls"),
    PanelKind("findings", "Findings"),
    PanelKind("flow", "Tensor flow"),
)
BY_ID = {kind.id: kind for kind in PANELS}


def answers(kind: PanelKind, context: PanelContext) -> Iterator[RenderableType]:
    """What the panel shows: at first what is known at once, then more as it is found out."""
    answer: Callable[[PanelContext], Iterator[RenderableType]] = import_module(f"{__name__}.{kind.id}").answers
    return answer(context)
