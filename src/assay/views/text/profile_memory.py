"""Measured beside predicted memory, with reasons; timelines of the recorded passes and live tensors at the peak."""

from __future__ import annotations

from collections.abc import Sequence

from assay import units
from assay.analysis.memory import Memory, PeakComparison, compared_peaks, memory_of
from assay.document.document import Document
from assay.document.provenance import Unknown
from assay.views.tables import Column, Table
from assay.views.text.facts import notes_table
from assay.views.text.memory import occupancy_parts
from assay.views.text.report import Parts, section

_TITLE = "Peak memory beyond parameters, buffers and inputs: predicted, allocated by torch, resident"
_PEAKS: tuple[Column[PeakComparison], ...] = (
    Column("pass", lambda row: row.name),
    Column("predicted", lambda row: row.predicted.value, "right", units.size),
    Column("allocated", lambda row: row.measured.value, "right", units.size),
    Column("ratio", lambda row: row.ratio, "right", units.ratio),
    Column("resident growth", lambda row: row.process_growth.value, "right", units.size),
    Column("resident peak", lambda row: row.process_peak.value, "right", units.size, drops=True),
)


def memory_parts(document: Document) -> Parts:
    """The comparison, then the timeline and the live tensors at the peak of every recorded pass."""
    profile = document.profile
    if profile is None or profile.memory is None:
        return []
    optimizer = profile.step.optimizer_name if profile.step is not None else ""
    memory = memory_of(document, optimizer=optimizer or "adamw")
    return [*comparison_parts(document, memory), *occupancy_parts(memory, document)]


def comparison_parts(document: Document, memory: Memory) -> Parts:
    """Predicted beside measured peaks and the reasons for differences; nothing if no memory was measured."""
    rows = compared_peaks(document, memory)
    if not rows:
        return []
    return [_TITLE, Table(_PEAKS, rows), *section("Why the peaks differ", notes_table(_reasons(rows)))]


def _reasons(rows: Sequence[PeakComparison]) -> list[str]:
    return [f"{row.name}: {reason}" for row in rows for reason in (*row.reasons, *_unknown(row))]


def _unknown(row: PeakComparison) -> list[str]:
    """Why a value of the row is unknown."""
    figures = {"predicted": row.predicted, "allocated by torch": row.measured, "resident set": row.process_growth}
    return [f"{name} unknown: {each.how.why}" for name, each in figures.items() if isinstance(each.how, Unknown)]
