"""The tab of times: modules by the time they took themselves."""

from __future__ import annotations

from dataclasses import replace

from assay import units
from assay.document.document import Document
from assay.views.tui.columns import SheetColumn
from assay.views.tui.sheet import Sheet, first_open
from assay.views.tui.sheets.placing import FoldedTree, place
from assay.views.tui.sheets.tree_columns import classes, time_columns, times_of, type_column
from assay.views.tui.subject import ExploredModel

EMPTY = (
    "No clock was read.\n"
    "Record a forward pass first: with assay.record_forward_stats(model): model(x), "
    "or assay.explore_with_stats(model, x), or assay explore MODEL --stats."
)


def time_sheet(subject: ExploredModel) -> Sheet:
    """The modules that were timed, the slowest first; own times add up, inclusive ones are never added."""
    document = subject.document
    timed = document if document.timing is not None else Document()
    placed = place(timed)
    return Sheet(
        id="time",
        title="Time",
        noun="module",
        index=placed.index,
        columns=[*_columns(placed), type_column(placed)],
        modules=placed.modules,
        path=placed.path,
        paths=placed.paths,
        kinds=classes(placed),
        opened=first_open(placed.index),
        about=_about(timed),
        empty=EMPTY,
        biggest="time_self",
        sorted_by="time_self" if timed.modules else "",
        notes=placed.note,
    )


def _columns(placed: FoldedTree) -> list[SheetColumn]:
    rows = times_of(placed.document)
    calls = placed.figures([None if row is None else row.calls for row in rows])
    spread = placed.figures([None if row is None else row.spread_s for row in rows])
    device = placed.figures([None if row is None else row.device_self_s for row in rows])
    return [
        *(replace(column, on=True) for column in time_columns(placed, on=True)),
        SheetColumn("calls", "calls", calls, "calls in one pass", units.exact, right=True),
        SheetColumn("spread", "± time", spread, "half the interquartile range over passes", units.seconds, right=True,
                    on=any(row is not None and row.spread_s is not None for row in rows)),
        SheetColumn("device_self", "own device", device, "own time of the accelerator", units.seconds, right=True,
                    on=any(row is not None and row.device_self_s is not None for row in rows)),
    ]  # fmt: skip


def _about(document: Document) -> str:
    timing = document.timing
    if timing is None:
        return "no time was measured"
    parts = [f"one pass {_seconds(timing.whole.value)}", f"outside any module {_seconds(timing.outside.value)}"]
    if timing.overhead.value is not None:
        parts.append(f"measuring took {units.ratio(timing.overhead.value)} × the bare pass")
    return " · ".join(parts)


def _seconds(value: float | None) -> str:
    return units.seconds(value)
