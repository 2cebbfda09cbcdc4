"""The label components of a module: the registry that the tree, the label panel and the display keys share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import zip_longest

from assay import units
from assay.analysis.cost.totals import module_totals
from assay.analysis.parameters import PARAMETER, first_holders, held
from assay.document.document import Document
from assay.document.rows import Call
from assay.document.timing import ModuleTime
from assay.views.tui.columns import DeferredTexts, Numbers, SheetColumn, Words, percent
from assay.views.tui.sheets import shapes
from assay.views.tui.sheets.placing import FoldedTree, shares
from assay.views.tui.subject import ExploredModel

GROUPS = {
    "shapes": ("shapes",),
    "memory": ("memory",),
    "counts": ("params", "params_share", "params_self"),
    "device": ("device", "dtype"),
    "forward": ("inputs", "outputs", "calls", "time", "time_self"),
}
"""What one display key shows or hides together."""


def tree_columns(subject: ExploredModel, placed: FoldedTree) -> list[SheetColumn]:
    """Every component, in its first order. Values are made when they are first looked at."""
    return [
        type_column(placed),
        *_parameters(subject, placed),
        *_forward(placed),
        *time_columns(placed, on=subject.document.timing is not None),
        *_work(placed),
        SheetColumn("statistics", "statistics", DeferredTexts(len(placed.index)),
                    "mean ± deviation of its own parameters", on=False, cells=34),
    ]  # fmt: skip


def type_column(placed: FoldedTree) -> SheetColumn:
    """The class of each module."""
    return SheetColumn("type", "type", lambda: classes(placed), "class of the module", widest=22)


def classes(placed: FoldedTree) -> Words:
    """The class of each row's module."""
    return placed.texts([row.class_name for row in placed.document.modules])


def time_columns(placed: FoldedTree, *, on: bool) -> list[SheetColumn]:
    """How long modules took, with what is inside and without; times inside one another are never added."""
    timing = placed.document.timing
    whole = timing.whole.value if timing is not None else None

    def own() -> Numbers:
        return times(placed, lambda row: row.self_s)

    def total() -> Numbers:
        return times(placed, lambda row: row.total_s)

    return [
        SheetColumn("time", "time", total, "forward time, with everything inside", units.seconds, right=True, on=on),
        SheetColumn("time_self", "own time", own, "forward time without its submodules", units.seconds, right=True,
                    on=False),
        SheetColumn("time_share", "time %", lambda: shares(own(), whole), "own time as a part of the whole pass",
                    percent, right=True, on=False),
    ]  # fmt: skip


def times(placed: FoldedTree, of: Callable[[ModuleTime], float | None]) -> Numbers:
    """One figure of each module's time, unknown where none was measured."""
    timing = placed.document.timing
    rows = zip_longest(placed.document.modules, timing.modules if timing is not None else ())
    return placed.figures([None if row is None else of(row) for _, row in rows])


def _parameters(subject: ExploredModel, placed: FoldedTree) -> list[SheetColumn]:
    document = subject.document
    counts, sizes, buffers = _held(document)

    @cache
    def params() -> Numbers:
        return placed.sums(counts)

    def share() -> Numbers:
        return shares(params(), params()[0] if len(placed.index) else None)

    return [
        SheetColumn("shapes", "parameter shapes", lambda: placed.texts(_shapes(document)),
                    "shapes of its own parameters", on=False, widest=40),
        SheetColumn("params", "params", params, "parameters in it and below, tied ones once", units.count,
                    right=True),
        SheetColumn("params_share", "%", share, "its part of all parameters", percent, right=True),
        SheetColumn("params_self", "own params", lambda: placed.figures(counts), "parameters of its own", units.count,
                    right=True, on=False),
        SheetColumn("memory", "memory", lambda: placed.sums(sizes), "bytes of its parameters and those below",
                    units.size, right=True),
        SheetColumn("buffers", "buffers", lambda: placed.sums(buffers), "bytes of buffers in it and below",
                    units.size, right=True, on=False),
        SheetColumn("device", "device", lambda: placed.sets(_devices(subject), shapes.devices),
                    "where its tensors are", on=False, widest=16),
        SheetColumn("dtype", "dtype", lambda: placed.sets(_dtypes(document), ", ".join),
                    "element types of its parameters", on=False, widest=20),
    ]  # fmt: skip


def _forward(placed: FoldedTree) -> list[SheetColumn]:
    called = bool(placed.document.calls)

    def calls() -> list[list[Call]]:
        return [placed.calls.get(at, []) for at in range(len(placed.document.modules))]

    def inputs() -> Words:
        return placed.texts([shapes.of_first([call.inputs for call in each]) for each in calls()])

    def outputs() -> Words:
        return placed.texts([shapes.of_first([call.outputs for call in each]) for each in calls()])

    def counts() -> Numbers:
        return placed.figures([len(each) if called else None for each in calls()])

    return [
        SheetColumn(
            "inputs", "inputs", inputs, "shapes that went into its first call", italic=True, on=False, widest=24
        ),
        SheetColumn("outputs", "outputs", outputs, "shapes that came out of its first call", on=called, widest=24),
        SheetColumn("calls", "calls", counts, "how often it was called", units.exact, right=True, on=False),
    ]


def _work(placed: FoldedTree) -> list[SheetColumn]:
    document = placed.document
    cost = document.cost if document.ops else None
    nothing: list[int | None] = [None] * len(document.modules)

    def total() -> Numbers:
        return placed.figures([each.flops for each in module_totals(document, cost)] if cost else nothing)

    def own() -> Numbers:
        return placed.figures([each.own.flops for each in cost.modules] if cost else nothing)

    return [
        SheetColumn(
            "flops", "FLOPs", total, "work of the forward pass in it", units.count, right=True, on=bool(cost)
        ),
        SheetColumn("flops_self", "own FLOPs", own, "work of its own operations", units.count, right=True, on=False),
    ]


def _held(document: Document) -> tuple[list[int | None], list[int], list[int]]:
    """Of each module its parameters, their bytes and those of buffers: each tensor once, where it is first."""
    own = [[document.tensors[at] for at in tensors] for tensors in first_holders(document)]
    parameters = [held(tensor for tensor in each if tensor.role == PARAMETER) for each in own]
    buffers = [held(tensor for tensor in each if tensor.role != PARAMETER) for each in own]
    counts, sizes = [each.elements for each in parameters], [each.bytes for each in parameters]
    return counts, sizes, [each.bytes for each in buffers]


def _dtypes(document: Document) -> list[list[str]]:
    types = [tensor.type.dtype if tensor.role == PARAMETER else "" for tensor in document.tensors]
    return [[types[at] for at in row.tensors.values() if types[at]] for row in document.modules]


def _shapes(document: Document) -> list[str | None]:
    written = [shapes.dims(tensor.type.shape) if tensor.role == PARAMETER else "" for tensor in document.tensors]
    return [
        "  ".join(f"{name} {written[at]}" for name, at in row.tensors.items() if written[at]) or None
        for row in document.modules
    ]


def _devices(subject: ExploredModel) -> list[list[str]]:
    known = subject.devices
    return [
        [device for at in row.tensors.values() if at < len(known) and (device := known[at]) is not None]
        for row in subject.document.modules
    ]
