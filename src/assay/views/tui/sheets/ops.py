"""The ops tab: types of op, and below each its kinds of op with their cost."""

from __future__ import annotations

from collections import Counter
from typing import Any

from assay import units
from assay.analysis.parameters import sum_of_known
from assay.analysis.uniques.canonical import canonical
from assay.document.document import Document
from assay.document.rows import Operand, OpKind
from assay.messages import plural
from assay.views.partial import coverage_text
from assay.views.tables import percent
from assay.views.tui.columns import SheetColumn
from assay.views.tui.sheet import Sheet
from assay.views.tui.sheets.grouping import Groups, grouped
from assay.views.tui.sheets.placing import shares
from assay.views.tui.sheets.shapes import dims
from assay.views.tui.subject import ONLY_WEIGHTS, ExploredModel

EMPTY = (
    "No ops were recorded.\n"
    "Give inputs to run the model: assay explore MODEL --inputs 1x3x224x224, or assay.explore(model, inputs)."
)
NO_TYPE = "Op"
"""The group of ops whose type is unknown."""


def ops_sheet(subject: ExploredModel) -> Sheet:
    """All kinds of op that ran, grouped by type."""
    document = subject.document
    counts = Counter(op.kind for op in document.ops)
    firsts = {op.kind: document.module_of(op) for op in reversed(document.ops)}
    costs = document.cost.kinds if document.cost is not None else []
    by_type: dict[str, list[int]] = {}
    for kind in counts:
        by_type.setdefault(costs[kind].category if kind < len(costs) else NO_TYPE, []).append(kind)
    groups = Groups()
    for name, kinds in by_type.items():
        rows = [_values(document, kind, counts[kind]) for kind in kinds]
        sums = {each: sum_of_known([row[each] for row in rows]) for each in ("count", "flops", "bytes")}
        top = groups.add(name, values=sums)
        for kind, values in zip(kinds, rows, strict=True):
            op = document.kinds[kind].name
            groups.add(op, top, kind=op, module=firsts[kind], values=values)
    whole = document.cost.forward.flops if document.cost is not None else None
    flops = groups.figures("flops")
    columns = [
        groups.number("count", "count", "number of executions", units.exact),
        SheetColumn("flops", "FLOPs", flops, "FLOPs of all executions", units.count, right=True),
        SheetColumn(
            "flops_share", "FLOPs %", shares(flops, whole), "share of the FLOPs of the pass", percent, right=True
        ),
        groups.number("flops_each", "FLOPs each", "FLOPs of one execution", units.count, on=False),
        groups.number("bytes", "bytes", "bytes read and written by all executions", units.size),
        groups.number("intensity", "FLOPs/byte", "FLOPs per byte read or written", units.ratio, on=False),
        groups.text("inputs", "inputs", "input shapes", italic=True, widest=30),
        groups.text("outputs", "outputs", "output shapes", widest=24),
        groups.text("attributes", "attributes", "arguments that are not tensors", widest=60),
    ]
    return grouped(
        groups,
        id="ops",
        noun="op",
        columns=columns,
        depth=1,
        about=_about(document, counts, by_type),
        empty=ONLY_WEIGHTS if subject.tensors_in_tree else _no_ops(document),
        biggest="flops",
    )


def _about(document: Document, counts: Counter[int], by_type: dict[str, list[int]]) -> str:
    cost = document.cost
    parts = [plural(counts.total(), "op"), plural(len(counts), "kind"), plural(len(by_type), "type")]
    if cost is not None and counts:
        parts.append(f"{units.count(cost.forward.flops, 'FLOPs')}, {coverage_text(cost)}")
    return " · ".join(parts)


def _no_ops(document: Document) -> str:
    """The sentence shown if no ops are known."""
    return EMPTY if document.failure is None else f"No op ran before the pass stopped: {document.failure.error}"


def _values(document: Document, kind: int, count: int) -> dict[str, Any]:
    op = document.kinds[kind]
    cost = document.cost.kinds[kind] if document.cost is not None else None
    each = cost.flops if cost is not None else None
    return {
        "count": count,
        "flops_each": each,
        "flops": None if each is None else each * count,
        "bytes": None if cost is None else cost.bytes * count,
        "intensity": None if cost is None else cost.intensity,
        "inputs": _shapes(op.inputs),
        "outputs": _shapes(op.outputs),
        "attributes": _attributes(op),
    }


def _shapes(operands: tuple[Operand, ...]) -> str | None:
    return ", ".join(dims(operand.type.shape) for operand in operands) or None


def _attributes(kind: OpKind) -> str | None:
    return " ".join(f"{name}={canonical(value).decode()}" for name, value in kind.attributes.items()) or None
