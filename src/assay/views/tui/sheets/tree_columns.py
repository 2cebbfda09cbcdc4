"""The label components of a module: the registry that the tree, the label panel and the display keys share."""

from __future__ import annotations

from functools import cache

import numpy as np

from assay import units
from assay.analysis.cost.totals import module_totals
from assay.analysis.parameters import PARAMETER, elements, first_holders
from assay.document.document import Document
from assay.document.timing import ModuleTime
from assay.views.tui.columns import DeferredTexts, Numbers, SheetColumn, Words, numbers, percent
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
        return placed.figures([None if row is None else row.self_s for row in times_of(placed.document)])

    def total() -> Numbers:
        return placed.figures([None if row is None else row.total_s for row in times_of(placed.document)])

    return [
        SheetColumn("time", "time", total, "forward time, with everything inside", units.seconds, right=True, on=on),
        SheetColumn("time_self", "own time", own, "forward time without its submodules", units.seconds, right=True,
                    on=False),
        SheetColumn("time_share", "time %", lambda: shares(own(), whole), "own time as a part of the whole pass",
                    percent, right=True, on=False),
    ]  # fmt: skip


def times_of(document: Document) -> list[ModuleTime | None]:
    """The time of each module, None where none was measured."""
    times = document.timing.modules if document.timing is not None else []
    return [times[at] if at < len(times) else None for at in range(len(document.modules))]


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
    document = placed.document
    called = bool(document.calls)
    every = range(len(document.modules))
    return [
        SheetColumn("inputs", "inputs", lambda: placed.texts([shapes.inputs(placed.calls.get(at,
                    ())) for at in every]), "shapes that went into its first call", italic=True, on=False, widest=24),
        SheetColumn("outputs", "outputs", lambda: placed.texts([shapes.outputs(placed.calls.get(at,
                    ())) for at in every]), "shapes that came out of its first call", on=called, widest=24),
        SheetColumn("calls", "calls", lambda: placed.figures([len(placed.calls.get(at,
                    ())) if called else None for at in every]), "how often it was called", units.exact, right=True,
                    on=False),
    ]  # fmt: skip


def _work(placed: FoldedTree) -> list[SheetColumn]:
    document, cost = placed.document, placed.document.cost
    nothing: list[int | None] = [None] * len(document.modules)
    seen = cost is not None and bool(document.ops)

    def total() -> Numbers:
        known = seen and cost is not None
        return placed.figures([each.flops for each in module_totals(document, cost)] if known and cost else nothing)

    def own() -> Numbers:
        return placed.figures([each.own.flops for each in cost.modules] if seen and cost else nothing)

    return [
        SheetColumn("flops", "FLOPs", total, "work of the forward pass in it", units.count, right=True, on=seen),
        SheetColumn("flops_self", "own FLOPs", own, "work of its own operations", units.count, right=True, on=False),
    ]


def _held(document: Document) -> tuple[Numbers, Numbers, Numbers]:
    """Of each module its parameters, their bytes and those of buffers: each tensor once, where it is first."""
    tensors = document.tensors
    counts: list[int | None] = [0] * len(document.modules)
    sizes, buffers = np.zeros(len(counts), np.int64), np.zeros(len(counts), np.int64)
    known = [elements(tensor.type) for tensor in tensors]
    for at, own in enumerate(first_holders(document)):
        for each in own:
            if tensors[each].role != PARAMETER:
                buffers[at] += tensors[each].bytes
                continue
            sizes[at] += tensors[each].bytes
            before, here = counts[at], known[each]
            counts[at] = None if before is None or here is None else before + here
    return numbers(counts), Numbers(sizes), Numbers(buffers)


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
