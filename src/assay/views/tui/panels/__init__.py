"""The panels on the right: each computes, in a thread, its content for the selected row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import NamedTuple

from rich.console import RenderableType
from rich.text import Text

from assay.views.tui.panels.context import PanelContext


class PanelKind(NamedTuple):
    """The description of a panel."""

    id: str
    title: str
    wraps: bool = True
    """Whether long lines wrap; otherwise the panel scrolls sideways."""
    of_tensors: bool = False
    """Whether it can show a tensor that does not belong to a module of the document."""


PANELS = (
    PanelKind("code", "Code", wraps=False),
    PanelKind("attributes", "Attributes", of_tensors=True),
    PanelKind("forward", "Forward calls"),
    PanelKind("findings", "Findings"),
    PanelKind("flow", "Tensor flow"),
)
BY_ID = {kind.id: kind for kind in PANELS}


def contents(kind: PanelKind, context: PanelContext) -> Iterator[RenderableType]:
    """The successive contents of the panel: first what is known already, then more as it is computed."""
    if context.module < 0 and not (kind.of_tensors and context.tensor):
        of_tensor = kind.of_tensors and context.subject.tensors_in_tree
        return iter([Text("Select a tensor." if of_tensor else "Select a module.", style="dim")])
    of_kind: Callable[[PanelContext], Iterator[RenderableType]] = import_module(f"{__name__}.{kind.id}").contents
    return of_kind(context)
