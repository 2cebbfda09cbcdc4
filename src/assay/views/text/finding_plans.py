"""The plan of a finding as a table: one row per tensor, with what is proposed and its bytes before and after."""

from __future__ import annotations

from assay import units
from assay.document.findings import Finding
from assay.document.plans import PrunedTensor, QuantizedTensor, TensorPlan
from assay.views.tables import Column, Table, percent
from assay.views.text.facts import notes_table
from assay.views.text.report import Parts

_SHOWN = 12
"""Rows of a plan in text; JSON has all of them."""

_NAME: Column[TensorPlan] = Column("  tensor", lambda row: f"  {row.name}", shrinks=True)
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


def plan_parts(finding: Finding) -> Parts:
    """The first rows of the finding's plan, and how many more there are; nothing without a plan."""
    if not finding.plan:
        return []
    own = _QUANTIZED if isinstance(finding.plan[0], QuantizedTensor) else _PRUNED
    table = Table((_NAME, *own, *_BYTES), finding.plan[:_SHOWN])
    more = len(finding.plan) - _SHOWN
    return [table, notes_table([f"  {more} more in --format json"])] if more > 0 else [table]
