"""The plan of a finding as a table: what is proposed for tensors, and their bytes before and after.

The same tensor of repeated blocks shares a row if the same is proposed for it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from msgspec.structs import replace

from assay import units
from assay.analysis.name_ranges import FoldedName, fold_rows
from assay.document.findings import Finding
from assay.document.plans import PrunedTensor, QuantizedTensor, TensorPlan
from assay.messages import plural
from assay.views.tables import Column, Table, percent
from assay.views.text.facts import notes_table
from assay.views.text.report import Parts

_SHOWN = 12
"""Rows of a plan in text; JSON has all of them."""

_NAME: Column[TensorPlan] = Column("  tensor", lambda row: f"  {row.name}", shrinks=True, cuts="middle")
_BYTES: tuple[Column[TensorPlan], ...] = (
    Column("now", lambda row: row.bytes, "right", units.size),
    Column("planned", lambda row: row.planned_bytes, "right", units.size),
)
_QUANTIZED: tuple[Column[QuantizedTensor], ...] = (
    Column("width", lambda row: row.width),
    Column("scale per", lambda row: row.scope or None),
    Column("SQNR", lambda row: row.sqnr_db, "right", lambda db: "exact" if db is None else f"{db:.1f} dB"),
)
_PRUNED: tuple[Column[PrunedTensor], ...] = (
    Column("prunable", lambda row: row.share, "right", lambda share: f"≥ {percent(share)}"),
    Column("zero already", lambda row: row.share_zero, "right", percent),
    Column("energy kept", lambda row: row.energy, "right", percent),
)


def _proposal(plan: TensorPlan) -> Hashable:
    """Tensors with equal proposals may share a row."""
    return (plan.format, plan.scope) if isinstance(plan, QuantizedTensor) else ()


def _merged(folded: FoldedName, rows: Sequence[TensorPlan]) -> TensorPlan:
    """One row for several tensors: sums, the lowest SQNR, and shares of all their weights."""
    sums = {"bytes": sum(row.bytes for row in rows), "planned_bytes": sum(row.planned_bytes for row in rows)}
    first = rows[0]
    if isinstance(first, QuantizedTensor):
        lowest = [row.sqnr_db for row in rows if isinstance(row, QuantizedTensor) and row.sqnr_db is not None]
        return replace(first, name=folded.counted, sqnr_db=min(lowest, default=None), **sums)
    pruned = [row for row in rows if isinstance(row, PrunedTensor)]
    elements = sum(row.elements for row in pruned)

    def mean(of: Callable[[PrunedTensor], float]) -> float:
        return sum(of(row) * row.elements for row in pruned) / elements

    return replace(
        first,
        name=folded.counted,
        elements=elements,
        share=mean(lambda row: row.share),
        share_zero=mean(lambda row: row.share_zero),
        energy=min(row.energy for row in pruned),
        **sums,
    )


def plan_parts(finding: Finding) -> Parts:
    """The first rows of the finding's plan, and how many more there are; nothing without a plan."""
    if not finding.plan:
        return []
    own = _QUANTIZED if isinstance(finding.plan[0], QuantizedTensor) else _PRUNED
    rows = fold_rows(finding.plan, lambda row: row.name, _proposal, _merged)
    table = Table((_NAME, *own, *_BYTES), rows[:_SHOWN], fixed=True)
    more = len(rows) - _SHOWN
    return [table, notes_table([f"  {plural(more, 'more row')}"])] if more > 0 else [table]
