"""The tabs that show the module tree: as it stands, and by the time that modules took themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from assay import units
from assay.analysis.parameters import parameters
from assay.document.document import Document
from assay.document.tree import shown
from assay.views.tui.columns import SheetColumn
from assay.views.tui.sheet import Sheet, first_open
from assay.views.tui.sheets.placing import FoldedTree, place
from assay.views.tui.sheets.tree_columns import classes, time_columns, times, tree_columns, type_column
from assay.views.tui.subject import ExploredModel

NO_MODULES = "No modules: nothing was watched and no tree was saved."
NO_TIMES = (
    "No clock was read.\n"
    "Record a forward pass first: with assay.record_forward_stats(model): model(x), "
    "or assay.explore_with_stats(model, x), or assay explore MODEL --stats."
)


def tree_sheet(subject: ExploredModel) -> Sheet:
    """The module tree of `subject`, runs of equal siblings folded."""
    placed = place(subject.document)
    return _sheet(placed, "tree", tree_columns(subject, placed), _totals(subject.document), NO_MODULES, "params_self")


def time_sheet(subject: ExploredModel) -> Sheet:
    """The modules that were timed, the slowest first; own times add up, inclusive ones are never added."""
    timed = subject.document if subject.document.timing is not None else Document()
    placed = place(timed)
    columns = [*_times(placed), type_column(placed)]
    sheet = _sheet(placed, "time", columns, _measured(timed), NO_TIMES, "time_self")
    return replace(sheet, noun="module", sorted_by="time_self" if timed.modules else "")


def _sheet(
    placed: FoldedTree, id: str, columns: Sequence[SheetColumn], about: str, empty: str, biggest: str
) -> Sheet:
    return Sheet(
        id=id,
        index=placed.index,
        columns=columns,
        modules=placed.modules,
        path=placed.path,
        paths=placed.paths,
        kinds=classes(placed),
        opened=first_open(placed.index),
        about=about,
        empty=empty,
        biggest=biggest,
        notes=placed.note,
    )


def _times(placed: FoldedTree) -> list[SheetColumn]:
    calls = times(placed, lambda row: row.calls)
    spread = times(placed, lambda row: row.spread_s)
    device = times(placed, lambda row: row.device_self_s)
    return [
        *(replace(column, on=True) for column in time_columns(placed, on=True)),
        SheetColumn("calls", "calls", calls, "calls in one pass", units.exact, right=True),
        SheetColumn("spread", "± time", spread, "half the interquartile range over passes", units.seconds, right=True,
                    on=bool(spread.known.any())),
        SheetColumn("device_self", "own device", device, "own time of the accelerator", units.seconds, right=True,
                    on=bool(device.known.any())),
    ]  # fmt: skip


def _totals(document: Document) -> str:
    """The totals of a document on one line."""
    found = parameters(document)
    parts = [f"{len(document.modules):,} modules", f"{units.count(found.count)} parameters", units.size(found.bytes)]
    if found.tied:
        parts.append(f"{len(found.tied)} tied, counted once")
    if found.buffers.bytes:
        parts.append(f"buffers {units.size(found.buffers.bytes)}")
    if document.cost is not None and document.ops:
        coverage = units.share(document.cost.coverage, 1)
        parts.append(f"{units.count(document.cost.forward.flops, 'FLOPs')} ({coverage} of ops counted)")
    if document.run.failure is not None:
        parts.append(f"forward stopped in {shown(document.run.failure.module)}")
    return " · ".join(parts)


def _measured(document: Document) -> str:
    """The times of a whole pass on one line."""
    timing = document.timing
    if timing is None:
        return "no time was measured"
    whole, outside = units.seconds(timing.whole.value), units.seconds(timing.outside.value)
    parts = [f"one pass {whole}", f"outside any module {outside}"]
    if timing.overhead.value is not None:
        parts.append(f"measuring took {units.ratio(timing.overhead.value)} × the bare pass")
    return " · ".join(parts)
