"""What was executed, one row a kind and phase, and sums over such rows by any key."""

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


class Executed(Struct, frozen=True):
    """A kind, how often it was executed in one phase, and what one execution costs."""

    kind: OpKind
    each: KindCost
    count: int
    phase: str

    @property
    def totals(self) -> CostTotals:
        """All its executions together."""
        return times(self.each, self.count)


def executed(document: Document, cost: Cost) -> list[Executed]:
    """Every kind of the forward pass, then of the backward pass where that was watched, first executed first."""
    rows = _rows(document.ops, document.kinds, cost.kinds, FORWARD)
    if document.training is not None and cost.backward is not None:
        kinds = document.training.kinds
        backward = [op for op in document.training.ops if op.phase == BACKWARD]
        rows += _rows(backward, kinds, [cost_of(kind) for kind in kinds], BACKWARD)
    return rows


def grouped(rows: Iterable[Executed], key: Callable[[Executed], Label]) -> dict[Label, CostTotals]:
    """The sums over the rows of each key, in the order the keys are met."""
    groups: dict[Label, list[CostTotals]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row.totals)
    return {label: summed(totals) for label, totals in groups.items()}


def _rows(ops: Sequence[Op], kinds: Sequence[OpKind], costs: Sequence[KindCost], phase: str) -> list[Executed]:
    return [
        Executed(kinds[kind], costs[kind], count, phase) for kind, count in Counter(op.kind for op in ops).items()
    ]
