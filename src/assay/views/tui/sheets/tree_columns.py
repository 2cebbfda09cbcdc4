"""The columns of a module, shared by the tree, the column panel and the display keys."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import zip_longest

from assay import units
from assay.analysis.cost.totals import module_totals
from assay.analysis.parameters import first_holders, tensor_totals
from assay.document.document import Document
from assay.document.roles import PARAMETER
from assay.document.rows import Call
from assay.document.timing import ModuleTime
from assay.document.weights_fit import WeightsFit
from assay.views.tables import percent
from assay.views.tui.columns import DeferredTexts, Numbers, SheetColumn, Words
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
"""The columns that each display key shows or hides together."""


def tree_columns(subject: ExploredModel, tree: FoldedTree) -> list[SheetColumn]:
    """All columns in their default order; values are computed when they are first needed."""
    return [
        type_column(tree),
        *_parameters(subject, tree),
        *_forward(tree),
        *time_columns(tree, on=subject.document.timing is not None),
        *_flops(tree),
        SheetColumn("statistics", "statistics", DeferredTexts(len(tree.index)),
                    "mean ± std of the module's own parameters", on=False, cells=34),
    ]  # fmt: skip


def type_column(tree: FoldedTree) -> SheetColumn:
    """The class of each module."""
    return SheetColumn("type", "class", lambda: classes(tree), "class of the module", widest=22, name="type")


def classes(tree: FoldedTree) -> Words:
    """The class of each row's module."""
    return tree.texts([row.class_name for row in tree.document.modules])


def time_columns(tree: FoldedTree, *, on: bool) -> list[SheetColumn]:
    """Total time, self time and share of the pass of each module."""
    timing = tree.document.timing
    whole = timing.whole.value if timing is not None else None

    def own() -> Numbers:
        return times(tree, lambda row: row.self_s)

    def total() -> Numbers:
        return times(tree, lambda row: row.total_s)

    def share() -> Numbers:
        """Stated shares, which are also known if times were withheld; otherwise self times divided by the pass."""
        stated = times(tree, lambda row: row.self_share)
        return stated if stated.known.any() else shares(own(), whole)

    return [
        SheetColumn("time", "total time", total, "forward time, submodules included", units.seconds, right=True,
                    on=on, cells=11, name="time"),
        SheetColumn("time_self", "self time", own, "forward time without submodules", units.seconds, right=True,
                    on=False, cells=10, name="own time"),
        SheetColumn("time_share", "self %", share, "self time as a share of the pass",
                    percent, right=True, on=False, name="time %"),
    ]  # fmt: skip


def times(tree: FoldedTree, of: Callable[[ModuleTime], float | None]) -> Numbers:
    """The value `of` each module's time; unknown for modules that were not timed."""
    timing = tree.document.timing
    rows = zip_longest(tree.document.modules, timing.modules if timing is not None else ())
    return tree.figures([None if row is None else of(row) for _, row in rows])


def _parameters(subject: ExploredModel, tree: FoldedTree) -> list[SheetColumn]:
    document = subject.document
    fit = document.weights_fit or WeightsFit("")
    counts, sizes, buffers = _tensor_totals(document)

    @cache
    def params() -> Numbers:
        return tree.sums(counts)

    def share() -> Numbers:
        return shares(params(), params()[0] if len(tree.index) else None)

    return [
        SheetColumn("shapes", "parameter shapes", lambda: tree.texts(_shapes(document)),
                    "shapes of the module's own parameters", on=False, widest=40),
        SheetColumn("params", "params", params, "parameters, submodules included; tied ones count once", units.count,
                    right=True),
        SheetColumn("params_share", "%", share, "share of all parameters", percent, right=True),
        SheetColumn("params_self", "own params", lambda: tree.figures(counts), "parameters without submodules",
                    units.count, right=True, on=False),
        SheetColumn("memory", "memory", lambda: tree.sums(sizes), "bytes of parameters, submodules included",
                    units.size, right=True),
        SheetColumn("buffers", "buffers", lambda: tree.sums(buffers), "bytes of buffers, submodules included",
                    units.size, right=True, on=False),
        SheetColumn("missing", "not read" if fit.unread else "not in files", lambda: tree.sums(_missing(document)),
                    "tensors that the files lack, or that could not be read, submodules included", units.exact,
                    right=True, on=bool(fit.missing or fit.unread)),
        SheetColumn("device", "device", lambda: tree.sets(_devices(subject), shapes.devices),
                    "devices of the tensors", on=False, widest=16),
        SheetColumn("dtype", "dtype", lambda: tree.sets(_dtypes(document), ", ".join),
                    "dtypes of the parameters", on=False, widest=20),
    ]  # fmt: skip


def _forward(tree: FoldedTree) -> list[SheetColumn]:
    called = bool(tree.document.calls)
    failure = tree.document.run.failure

    def calls() -> list[list[Call]]:
        return [tree.calls.get(at, []) for at in range(len(tree.document.modules))]

    def has_failed(path: str) -> bool:
        """Whether the module was running when the pass failed: it or a module inside it raised the error."""
        return failure is not None and (not path or f"{failure.module}.".startswith(f"{path}."))

    def inputs() -> Words:
        return tree.texts([shapes.of_first([call.inputs for call in each]) for each in calls()])

    def outputs() -> Words:
        rows = zip(tree.document.modules, calls(), strict=True)
        return tree.texts(
            [
                shapes.of_first([call.outputs for call in each], "failed" if has_failed(row.path) else "none")
                for row, each in rows
            ]
        )

    def counts() -> Numbers:
        return tree.figures([len(each) if called else None for each in calls()])

    return [
        SheetColumn("inputs", "inputs", inputs, "input shapes of the first call", italic=True, on=False, widest=24),
        SheetColumn("outputs", "outputs", outputs, "output shapes of the first call", on=called, widest=24),
        SheetColumn("calls", "calls", counts, "number of calls", units.exact, right=True, on=False),
    ]


def _flops(tree: FoldedTree) -> list[SheetColumn]:
    document = tree.document
    cost = document.cost if document.ops else None
    unknown: list[int | None] = [None] * len(document.modules)

    def total() -> Numbers:
        return tree.figures([each.flops for each in module_totals(document, cost)] if cost else unknown)

    def own() -> Numbers:
        return tree.figures(
            [each.own.flops if each.total.recorded else None for each in cost.modules] if cost else unknown
        )

    return [
        SheetColumn(
            "flops", "FLOPs", total, "forward FLOPs, submodules included", units.count, right=True, on=bool(cost)
        ),
        SheetColumn(
            "flops_self",
            "self FLOPs",
            own,
            "forward FLOPs without submodules",
            units.count,
            right=True,
            on=False,
            name="own FLOPs",
        ),
    ]


def _tensor_totals(document: Document) -> tuple[list[int | None], list[int], list[int]]:
    """For each module its parameters, their bytes and the bytes of buffers; a tensor counts at its first module."""
    own = [[document.tensors[at] for at in tensors] for tensors in first_holders(document)]
    parameters = [tensor_totals(tensor for tensor in each if tensor.role == PARAMETER) for each in own]
    buffers = [tensor_totals(tensor for tensor in each if tensor.role != PARAMETER) for each in own]
    counts, sizes = [each.elements for each in parameters], [each.bytes for each in parameters]
    return counts, sizes, [each.bytes for each in buffers]


def _missing(document: Document) -> list[int | None]:
    """For each module its own tensors that the files lack or that were not read; unknown if there are no files."""
    fit = document.weights_fit
    if fit is None:
        return [None] * len(document.modules)
    lacking = {*fit.missing, *fit.unread}
    return [sum(document.tensors[at].names[0] in lacking for at in own) for own in first_holders(document)]


def _dtypes(document: Document) -> list[list[str]]:
    types = [tensor.type.dtype if tensor.role == PARAMETER else "" for tensor in document.tensors]
    return [[types[at] for at in row.tensors.values() if types[at]] for row in document.modules]


def _shapes(document: Document) -> list[str | None]:
    texts = [shapes.dims(tensor.type.shape) if tensor.role == PARAMETER else "" for tensor in document.tensors]
    return [
        "  ".join(f"{name} {texts[at]}" for name, at in row.tensors.items() if texts[at]) or None
        for row in document.modules
    ]


def _devices(subject: ExploredModel) -> list[list[str]]:
    devices = subject.devices
    return [
        [device for at in row.tensors.values() if at < len(devices) and (device := devices[at]) is not None]
        for row in subject.document.modules
    ]
