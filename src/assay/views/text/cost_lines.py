"""The rows of the cost tables, their labels and sums, for every breakdown of a model's cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from assay import units
from assay.analysis.cost import totals as costing
from assay.analysis.executed import ExecutedKind, executed_kinds, grouped
from assay.analysis.folding import TreeNode, fold, row_name
from assay.document import tree
from assay.document.cost import Cost, CostTotals
from assay.document.document import Document
from assay.views.partial import marked_total
from assay.views.tables import Column

_OUTSIDE = "(outside any module)"


@dataclass(frozen=True)
class CostRow:
    """One row of a cost table: its labels by column title, and its sums."""

    labels: Mapping[str, Any]
    own: CostTotals
    total: CostTotals | None = None
    """Including everything called inside; None if a row has no inside, as with kinds of op."""
    backward: CostTotals | None = None
    each: int | None = None
    """FLOPs of one execution."""
    depth: int = 0
    overlapping: bool = False
    """Whether it sums rows that may contain each other, so that only their own values add up."""


_Labels = Sequence[Column[CostRow]]


@dataclass(frozen=True)
class CostBreakdown:
    """The cost of a model broken down into rows that add up to the whole."""

    labels: _Labels
    lines: Sequence[CostRow]
    whole: CostRow
    figures: Sequence[str]
    """The columns it shows, as keys of `cost._FIGURES`."""
    ordered: bool = False
    """Whether the order of the rows is meaningful, so that they are not sorted by default."""
    is_tree: bool = False
    """Whether the rows are the module tree in preorder."""


def gathered(name: str, lines: Sequence[CostRow], total: CostTotals | None = None) -> CostRow:
    """One row named `name` that sums `lines`, including the numbers in their labels."""
    first, *others = lines[0].labels
    numbers = [title for title in others if isinstance(lines[0].labels[title], int)]
    sums = {title: sum(line.labels[title] for line in lines) for title in numbers}
    labels = {first: name, **dict.fromkeys(others, ""), **sums}
    own = costing.summed_recorded(line.own for line in lines)
    overlapping = total is None and lines[0].total is not None
    backward = _summed_known(line.backward for line in lines)
    return CostRow(labels, own, total, backward, overlapping=overlapping)


def _summed_known(totals: Iterable[CostTotals | None]) -> CostTotals | None:
    """The sum of the totals that are not None; None if all are."""
    known = [sums for sums in totals if sums is not None]
    return costing.summed(known) if known else None


def _label(title: str, align: Literal["left", "right"] = "left", **settings: Any) -> Column[CostRow]:
    return Column(title, lambda row: row.labels[title], align, **settings)


def _count(title: str, *, drops: bool = False) -> Column[CostRow]:
    return _label(title, "right", show=units.exact, drops=drops)


def _breakdown(
    labels: _Labels, lines: Sequence[CostRow], total: CostTotals, figures: str, partial: bool, ordered: bool = False
) -> CostBreakdown:
    name = marked_total("total", partial=partial)
    whole = gathered(name, lines, total) if lines else CostRow(_blank(name, labels), total, total)
    return CostBreakdown(labels, lines, whole, figures.split(), ordered)


def _blank(name: str, columns: _Labels) -> dict[str, Any]:
    """Labels with `name` in the first column, and zero or empty text in the rest."""
    return {column.title: 0 if column.show is units.exact else "" for column in columns} | {columns[0].title: name}


_EXECUTIONS = "share count flops macs bytes intensity"
_EXECUTION_LABELS: dict[str, Callable[[ExecutedKind], str]] = {
    "op": lambda row: row.kind.name,
    "type": lambda row: row.each.category,
    "inputs": lambda row: units.shapes(operand.type.shape for operand in row.kind.inputs),
    "outputs": lambda row: units.shapes(operand.type.shape for operand in row.kind.outputs),
    "dtype": lambda row: ", ".join(dict.fromkeys(one.type.dtype for one in (*row.kind.inputs, *row.kind.outputs))),
    "phase": lambda row: row.phase,
}


def _by_execution(columns: _Labels, document: Document, cost: Cost, *, each: bool = False) -> CostBreakdown:
    """One row per distinct label, or per kind of op if `each`; separate rows per phase if backward was recorded."""
    shown = columns if cost.backward is None else [*columns, _label("phase")]
    labels = {column.title: _EXECUTION_LABELS[column.title] for column in shown}

    def key(row: ExecutedKind) -> tuple[str, ...]:
        return tuple(of(row) for of in labels.values())

    def named(values: tuple[str, ...]) -> dict[str, Any]:
        return dict(zip(labels, values, strict=True))

    rows = executed_kinds(document, cost)
    if each:
        lines = [CostRow(named(key(row)), row.totals, each=row.each.flops) for row in rows]
    else:
        lines = [CostRow(named(values), sums) for values, sums in grouped(rows, key).items()]
    total = costing.summed([cost.forward, cost.backward or CostTotals()])
    return _breakdown(shown, lines, total, f"{_EXECUTIONS} each" if each else _EXECUTIONS, cost.partial)


_KIND_LABELS = (
    _label("op", show=units.op, shrinks=True, cuts="middle"),
    _label("type", drops=True),
    _label("inputs", shrinks=True),
    _label("outputs", shrinks=True),
    _label("dtype", drops=True),
)

_MODULES = "share self total self_macs self_bytes total_bytes"


def _by_module(document: Document, cost: Cost) -> CostBreakdown:
    """One row per module, in preorder."""
    calls = Counter(call.module for call in document.calls)
    depths = tree.depths(document.modules)
    totals = costing.module_totals(document, cost)
    lines = []
    for index in tree.preorder(document.modules):
        module, figures = document.modules[index], cost.modules[index]
        labels = {"module": tree.path_text(module.path), "class": module.class_name, "calls": calls[index]}
        own = figures.own if totals[index].recorded else costing.UNKNOWN
        lines.append(CostRow(labels, own, totals[index], figures.backward, depth=depths[index]))
    columns = [
        _label("module", shrinks=True, cuts="middle"),
        _label("class", shrinks=True, cuts="end"),
        _count("calls", drops=True),
    ]
    return replace(_with_outside(columns, lines, cost, ordered=True), is_tree=True)


def _by_folded_module(document: Document, cost: Cost) -> CostBreakdown:
    """One row per module, or per run of siblings whose subtrees have equal classes and costs, in preorder."""
    every = _by_module(document, cost)
    order = tree.preorder(document.modules)
    line_of = dict(zip(order, every.lines, strict=False))
    nodes = [
        TreeNode(
            module.path.rpartition(".")[2] or tree.ROOT, module.parent, _cost_key(line_of[index]), module.class_path
        )
        for index, module in enumerate(document.modules)
    ]
    paths: list[str] = []
    lines = []
    for row in fold(nodes, gaps=True):
        name = row_name(nodes, row, ",")
        above = paths[row.parent] if row.parent is not None else tree.ROOT
        paths.append(name if above == tree.ROOT else f"{above}.{name}")
        lines.append(_summed_line(paths[-1], [line_of[member] for member in row.members]))
    return replace(every, lines=[*lines, *every.lines[len(order) :]])


def _cost_key(line: CostRow) -> Hashable:
    return line.labels["class"], line.labels["calls"], line.own.flops, line.own.bytes


def _summed_line(name: str, lines: Sequence[CostRow]) -> CostRow:
    """One row for modules that have the same class."""
    if len(lines) == 1:
        return replace(lines[0], labels={**lines[0].labels, "module": name})
    total = costing.summed_recorded(line.total for line in lines if line.total is not None)
    summed = gathered(f"{name} ×{len(lines)}", lines, total)
    return replace(summed, labels={**summed.labels, "class": lines[0].labels["class"]}, depth=lines[0].depth)


def _by_class(document: Document, cost: Cost) -> CostBreakdown:
    """One row per module class."""
    calls = Counter(document.modules[call.module].class_name for call in document.calls)
    inside = costing.inside(document, cost, [(module.class_name,) for module in document.modules])
    members: dict[str, list[int]] = {}
    for index, module in enumerate(document.modules):
        members.setdefault(module.class_name, []).append(index)
    lines = []
    for name, indices in members.items():
        backward = _summed_known(cost.modules[index].backward for index in indices)
        labels = {"class": name, "modules": len(indices), "calls": calls[name]}
        own = costing.summed(cost.modules[index].own for index in indices)
        if any(cost.modules[index].total.recorded for index in indices):
            lines.append(CostRow(labels, own, inside.get(name, CostTotals()), backward))
        else:
            lines.append(CostRow(labels, costing.UNKNOWN, costing.UNKNOWN, backward))
    columns = [_label("class", shrinks=True), _count("modules"), _count("calls")]
    return _with_outside(columns, lines, cost)


def _by_call(document: Document, cost: Cost) -> CostBreakdown:
    """One row per module call of the forward pass, in order of execution."""
    own, totals = costing.per_call(document, cost), costing.per_call_total(document, cost)
    lines = []
    for number, call in enumerate(document.calls):
        module = document.modules[call.module]
        labels = {
            "call": str(number),
            "module": tree.path_text(module.path),
            "class": module.class_name,
            "outputs": units.shapes(output.shape for output in call.outputs),
        }
        lines.append(CostRow(labels, own[number], totals[number]))
    columns = [
        _label("call", "right"),
        _label("module", shrinks=True),
        _label("class", shrinks=True, cuts="end"),
        _label("outputs", shrinks=True, drops=True),
    ]
    return _with_outside(columns, lines, cost, ordered=True, phases=False)


def _with_outside(
    columns: _Labels, lines: list[CostRow], cost: Cost, *, ordered: bool = False, phases: bool = True
) -> CostBreakdown:
    """The breakdown of `lines` plus a row for ops outside any module; `phases` adds the backward pass."""
    backward = costing.backward_outside(cost) if phases else None
    if cost.outside.ops or (backward is not None and backward.ops):
        lines.append(CostRow(_blank(_OUTSIDE, columns), cost.outside, cost.outside, backward))
    both = phases and cost.backward is not None
    figures = f"{_MODULES} backward" if both else _MODULES
    return _breakdown(columns, lines, cost.forward, figures, cost.partial, ordered)


BREAKDOWNS: dict[str, Callable[[Document, Cost], CostBreakdown]] = {
    "category": partial(_by_execution, [_label("type")]),
    "kind": partial(_by_execution, _KIND_LABELS, each=True),
    "op": partial(_by_execution, [_label("op", show=units.op, shrinks=True, cuts="middle"), _label("type")]),
    "module": _by_module,
    "class": _by_class,
    "call": _by_call,
}
"""The breakdowns of a model's cost, by the values of `--by`."""
FOLDED = {**BREAKDOWNS, "module": _by_folded_module}
"""The same, with repeated blocks folded."""
