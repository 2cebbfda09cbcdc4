"""The tensors that flow into and out of the selected module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from assay import units
from assay.document.tree import path_text
from assay.messages import plural
from assay.views.tui.flow import FlowEdge, flow
from assay.views.tui.panels.context import PanelContext, line, plain
from assay.views.tui.subject import ONLY_WEIGHTS

NO_OPS = "No ops were recorded, so the tensor flow is unknown: open the model with inputs to run it."


def contents(context: PanelContext) -> Iterator[RenderableType]:
    """The modules its tensors come from and go to, most bytes first."""
    if not context.subject.document.ops:
        yield plain(ONLY_WEIGHTS if context.subject.tensors_in_tree else NO_OPS, "dim")
        return
    edges, row = flow(context.subject.document, context.module), context.row
    yield Group(
        *_edge_lines(edges.inputs),
        line(("    ↓", "dim")),
        line((f"  [ {path_text(row.path)} ]", context.styles["accent"]), ("  ", ""), (row.class_name, "dim")),
        line(("    ↓", "dim")),
        *_edge_lines(edges.outputs),
        Text(),
    )


def _edge_lines(edges: Sequence[FlowEdge]) -> list[Text]:
    if not edges:
        return [line(("  nothing", "dim"))]
    return [
        line((f"  {edge.other}", ""), (f"  {plural(edge.tensors, 'tensor')}, {units.size(edge.bytes)}", "dim"))
        for edge in edges
    ]
