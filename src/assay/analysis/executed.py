"""Executed kinds of ops, one row per kind and phase, and totals over such rows by any key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from assay.analysis.cost import cost_of
from assay.analysis.cost.totals import Label, summed, times
from assay.document.cost import Cost, CostTotals, KindCost
from assay.document.document import Document
from assay.document.rows import Op, OpKind

FORWARD = "forward"
BACKWARD = "backward"


class ExecutedKind(Struct, frozen=True):
    """A kind of op with the number of its executions in one phase and the cost of one execution."""

    kind: OpKind
    each: KindCost
    count: int
    phase: str

    @property
    def totals(self) -> CostTotals:
        """The total cost of all executions."""
        return times(self.each, self.count)


def executed_kinds(document: Document, cost: Cost) -> list[ExecutedKind]:
    """Every kind of op in order of first execution: the forward pass, then the backward pass if it was recorded."""
    rows = _rows(document.ops, document.kinds, cost.kinds, FORWARD)
    if document.training is not None and cost.backward is not None:
        kinds = document.training.kinds
        backward = [op for op in document.training.ops if op.phase == BACKWARD]
        rows += _rows(backward, kinds, [cost_of(kind) for kind in kinds], BACKWARD)
    return rows


def grouped(rows: Iterable[ExecutedKind], key: Callable[[ExecutedKind], Label]) -> dict[Label, CostTotals]:
    """The total cost of the rows of each key, keys in order of first appearance."""
    groups: dict[Label, list[CostTotals]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row.totals)
    return {label: summed(totals) for label, totals in groups.items()}


def _rows(ops: Sequence[Op], kinds: Sequence[OpKind], costs: Sequence[KindCost], phase: str) -> list[ExecutedKind]:
    return [
        ExecutedKind(kinds[kind], costs[kind], count, phase) for kind, count in Counter(op.kind for op in ops).items()
    ]
