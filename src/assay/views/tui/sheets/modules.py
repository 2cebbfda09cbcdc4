"""The tabs of the module tree: the tree itself, and the modules by self time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from assay import units
from assay.analysis.parameters import parameters
from assay.document.document import Document
from assay.document.tree import path_text
from assay.messages import plural
from assay.views.partial import coverage_text
from assay.views.tables import percent
from assay.views.tui.columns import SheetColumn
from assay.views.tui.sheet import Sheet, first_open
from assay.views.tui.sheets.placing import FoldedTree, folded_tree
from assay.views.tui.sheets.tree_columns import classes, time_columns, times, tree_columns, type_column
from assay.views.tui.subject import ONLY_WEIGHTS, ExploredModel

NO_MODULES = "No modules: the model was not run, and the document contains no module tree."
NO_TIMES = (
    "No times were measured.\n"
    "Record a forward pass first: with assay.record_forward_stats(model): model(x), "
    "or assay.explore_with_stats(model, x), or assay explore MODEL --stats."
)


def tree_sheet(subject: ExploredModel) -> Sheet:
    """The module tree of `subject`, with runs of equal siblings folded."""
    tree = folded_tree(subject.document)
    return _sheet(tree, "tree", tree_columns(subject, tree), _totals(subject.document), NO_MODULES, "params_self")


def time_sheet(subject: ExploredModel) -> Sheet:
    """The timed modules, largest self time first; self times add up to the pass, total times overlap."""
    timed = subject.document if subject.document.timing is not None else Document()
    tree = folded_tree(timed)
    columns = [*_times(tree), type_column(tree)]
    empty = ONLY_WEIGHTS if subject.tensors_in_tree else NO_TIMES
    sheet = _sheet(tree, "time", columns, _measured(timed), empty, "time_self")
    return replace(sheet, noun="module", sorted_by="time_self" if timed.modules else "")


def _sheet(tree: FoldedTree, id: str, columns: Sequence[SheetColumn], about: str, empty: str, biggest: str) -> Sheet:
    return Sheet(
        id=id,
        index=tree.index,
        columns=columns,
        modules=tree.modules,
        path=tree.path,
        paths=tree.paths,
        kinds=classes(tree),
        opened=first_open(tree.index),
        about=about,
        empty=empty,
        biggest=biggest,
        notes=tree.note,
    )


def _times(tree: FoldedTree) -> list[SheetColumn]:
    calls = times(tree, lambda row: row.calls)
    low, high = times(tree, lambda row: row.low_s), times(tree, lambda row: row.high_s)
    device = times(tree, lambda row: row.device_self_s)
    return [
        *(replace(column, on=True) for column in time_columns(tree, on=True)),
        SheetColumn("calls", "calls", calls, "calls in one pass", units.exact, right=True),
        SheetColumn("low", "low", low, "lowest total time in this run", units.seconds, right=True,
                    on=bool(low.known.any()), name="time low"),
        SheetColumn("high", "high", high, "highest total time in this run", units.seconds, right=True,
                    on=bool(high.known.any()), name="time high"),
        SheetColumn("device_self", "device self", device, "self time on the accelerator", units.seconds, right=True,
                    on=bool(device.known.any()), name="own device"),
    ]  # fmt: skip


def _totals(document: Document) -> str:
    """Modules, parameters, bytes and FLOPs of a document on one line, after the module that failed, if any."""
    counted = parameters(document)
    failure = document.run.failure
    parts = [] if failure is None else [f"forward failed in {path_text(failure.module)}"]
    parts += [
        plural(len(document.modules), "module"),
        f"{units.count(counted.count)} parameters",
        units.size(counted.bytes),
    ]
    if counted.tied:
        parts.append(f"{len(counted.tied)} tied, counted once")
    if counted.buffers is not None and counted.buffers.bytes:
        parts.append(f"buffers {units.size(counted.buffers.bytes)}")
    if document.cost is not None and document.ops:
        flops = units.count(document.cost.forward.flops, "FLOPs")
        parts.append(f"{flops} ({coverage_text(document.cost)})")
    return " · ".join(parts)


def _measured(document: Document) -> str:
    """The times of a whole pass on one line."""
    timing = document.timing
    if timing is None:
        return "no times were measured"
    whole, outside = units.seconds(timing.whole.value), units.seconds(timing.outside.value)
    parts = [f"one pass {whole}", f"outside any module {outside}"]
    if timing.overhead.value is not None:
        parts.append(f"overhead of timing modules {percent(timing.overhead.value - 1)}")
    return " · ".join(parts)
