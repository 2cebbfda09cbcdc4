"""The lines of the cost tables: what each is about and its sums, for every way to divide a model's cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from assay import units
from assay.analysis.cost import totals as costing
from assay.analysis.executed import Executed, executed, grouped
from assay.document import tree
from assay.document.cost import Cost, Totals
from assay.document.document import Document
from assay.document.rows import Operand
from assay.views.tables import Column

_OUTSIDE = "(outside any module)"


@dataclass(frozen=True)
class Line:
    """One line: its labels, and the sums behind its figures."""

    labels: tuple[Any, ...]
    own: Totals
    total: Totals | None = None
    """With everything inside its calls; None where that means nothing."""
    backward: Totals | None = None
    each: int | None = None
    """FLOPs of one execution."""
    depth: int = 0


@dataclass(frozen=True)
class Division:
    """A model's cost divided into lines that add up to the whole."""

    labels: Sequence[Column]
    lines: Sequence[Line]
    whole: Line
    figures: Sequence[str]
    """Names of the figures it shows."""
    ordered: bool = False
    """Whether the order of the lines says something by itself."""


def gathered(name: str, lines: Sequence[Line], total: Totals | None = None) -> Line:
    """One line that stands for many: numbers in the labels are added too."""
    columns = list(zip(*(line.labels for line in lines), strict=True))
    labels = [sum(column) if column and isinstance(column[0], int) else "" for column in columns]
    backward = [line.backward for line in lines if line.backward is not None]
    own = costing.summed(line.own for line in lines)
    return Line((name, *labels[1:]), own, total, costing.summed(backward) if backward else None)


def _divided(
    labels: Sequence[Column], lines: Sequence[Line], total: Totals, figures: str, ordered: bool = False
) -> Division:
    whole = gathered("total", lines, total) if lines else Line(_blank("total", labels), total, total)
    return Division(labels, lines, whole, figures.split(), ordered)


def _blank(name: str, columns: Sequence[Column]) -> tuple[Any, ...]:
    """The labels of a line that is about nothing but its name."""
    return name, *(0 if column.show is units.exact else "" for column in columns[1:])


def _by_execution(
    columns: Sequence[Column], key: Callable[[Executed], tuple[Any, ...]], document: Document, cost: Cost
) -> Division:
    """Lines by a key of what was executed; where the backward pass was watched, the phases apart."""
    both = cost.backward is not None
    rows = executed(document, cost)
    found = grouped(rows, lambda row: (*key(row), row.phase) if both else key(row))
    total = costing.summed([cost.forward, cost.backward or Totals()])
    shown = [*columns, Column("phase")] if both else columns
    return _divided(shown, [Line(label, sums) for label, sums in found.items()], total, _EXECUTIONS)


_EXECUTIONS = "share count flops macs bytes intensity"


def by_category(document: Document, cost: Cost) -> Division:
    """By type of operation."""
    return _by_execution([Column("type")], lambda row: (row.each.category,), document, cost)


def by_op(document: Document, cost: Cost) -> Division:
    """By operation, whatever its shapes."""
    columns = [Column("op", shrinks=True), Column("type")]
    return _by_execution(columns, lambda row: (row.kind.name, row.each.category), document, cost)


def by_kind(document: Document, cost: Cost) -> Division:
    """By operation with its shapes and attributes."""
    columns = [
        Column("op", shrinks=True),
        Column("type", drops=True),
        Column("inputs", shrinks=True),
        Column("outputs", shrinks=True),
        Column("dtype", drops=True),
    ]
    both = cost.backward is not None
    lines = [Line((*_kind_labels(row), *([row.phase] if both else [])), row.totals, each=row.each.flops)
             for row in executed(document, cost)]  # fmt: skip
    total = costing.summed([cost.forward, cost.backward or Totals()])
    return _divided([*columns, *([Column("phase")] if both else [])], lines, total, f"{_EXECUTIONS} each")


def _kind_labels(row: Executed) -> tuple[str, ...]:
    kind = row.kind
    dtypes = dict.fromkeys(operand.type.dtype for operand in (*kind.inputs, *kind.outputs))
    return kind.name, row.each.category, _shapes(kind.inputs), _shapes(kind.outputs), ", ".join(dtypes)


def _shapes(operands: Sequence[Operand]) -> str:
    return ", ".join(units.shape(operand.type.shape) for operand in operands)


_MODULES = "share self total self_macs self_bytes total_bytes"


def by_module(document: Document, cost: Cost) -> Division:
    """By module, in the order of the tree."""
    calls = _call_counts(document)
    depths = tree.depths(document.modules)
    totals = costing.module_totals(document, cost)
    lines = []
    for index in tree.preorder(document.modules):
        module, figures = document.modules[index], cost.modules[index]
        labels = (tree.shown(module.path), module.class_name, calls[index])
        lines.append(Line(labels, figures.own, totals[index], figures.backward, depth=depths[index]))
    columns = [
        Column("module", shrinks=True),
        Column("class", shrinks=True, cuts=True),
        Column("calls", "right", units.exact, drops=True),
    ]
    return _with_outside(columns, lines, cost, ordered=True)


def by_class(document: Document, cost: Cost) -> Division:
    """By class of module."""
    calls = _call_counts(document)
    inside = costing.inside(document, cost, [(module.class_name,) for module in document.modules])
    members: dict[str, list[int]] = {}
    for index, module in enumerate(document.modules):
        members.setdefault(module.class_name, []).append(index)
    lines = []
    for name, indices in members.items():
        backward = [sums for index in indices if (sums := cost.modules[index].backward) is not None]
        labels = (name, len(indices), sum(calls[index] for index in indices))
        own = costing.summed(cost.modules[index].own for index in indices)
        lines.append(Line(labels, own, inside.get(name, Totals()), costing.summed(backward) if backward else None))
    columns = [
        Column("class", shrinks=True),
        Column("modules", "right", units.exact),
        Column("calls", "right", units.exact),
    ]
    return _with_outside(columns, lines, cost)


def by_call(document: Document, cost: Cost) -> Division:
    """By call of a module, in the order they were made; the forward pass."""
    own, totals = costing.per_call(document, cost), costing.per_call_total(document, cost)
    lines = []
    for number, call in enumerate(document.calls):
        module = document.modules[call.module]
        outputs = ", ".join(units.shape(output.shape) for output in call.outputs)
        labels = (str(number), tree.shown(module.path), module.class_name, outputs)
        lines.append(Line(labels, own[number], totals[number]))
    columns = [
        Column("call", "right"),
        Column("module", shrinks=True),
        Column("class", shrinks=True, cuts=True),
        Column("outputs", shrinks=True, drops=True),
    ]
    return _with_outside(columns, lines, cost, ordered=True, phases=False)


def _with_outside(
    columns: Sequence[Column], lines: list[Line], cost: Cost, *, ordered: bool = False, phases: bool = True
) -> Division:
    backward = costing.backward_outside(cost) if phases else None
    if cost.outside.ops or (backward is not None and backward.ops):
        lines.append(Line(_blank(_OUTSIDE, columns), cost.outside, cost.outside, backward))
    both = phases and cost.backward is not None
    return _divided(columns, lines, cost.forward, f"{_MODULES} backward" if both else _MODULES, ordered)


def _call_counts(document: Document) -> list[int]:
    counts = [0] * len(document.modules)
    for call in document.calls:
        counts[call.module] += 1
    return counts


DIVISIONS: dict[str, Callable[[Document, Cost], Division]] = {
    "category": by_category,
    "kind": by_kind,
    "op": by_op,
    "module": by_module,
    "class": by_class,
    "call": by_call,
}
"""By what a cost can be divided."""
