"""Tensor flow of the selected module: what feeds it and what it feeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from assay import units
from assay.document.tree import shown
from assay.views.tui.flow import FlowEdge, flow
from assay.views.tui.panels.context import PanelContext, line, plain

NO_OPS = "No operations were captured, so nobody knows what flows where: give the model inputs to run with."


def answers(context: PanelContext) -> Iterator[RenderableType]:
    """Where its tensors come from and where they go, most bytes first."""
    if not context.subject.document.ops:
        yield plain(NO_OPS, "dim")
        return
    found, row = flow(context.subject.document, context.module), context.row
    yield Group(
        *_streams(found.feeds_it),
        line(("    ↓", "dim")),
        line((f"  [ {shown(row.path)} ]", context.styles["accent"]), ("  ", ""), (row.class_name, "dim")),
        line(("    ↓", "dim")),
        *_streams(found.fed_by_it),
        Text(),
    )


def _streams(streams: Sequence[FlowEdge]) -> list[Text]:
    if not streams:
        return [line(("  nothing", "dim"))]
    return [
        line((f"  {stream.other}", ""), (f"  {stream.tensors} × ", "dim"), (units.size(stream.bytes), "dim"))
        for stream in streams
    ]
