"""A budget as a table: value, limit and verdict of each line, and how the value was obtained."""

from __future__ import annotations

from collections.abc import Callable

from assay import units
from assay.findings.budget import EXCEEDED, PASSED, RATIO, UNKNOWN, BudgetLine, BudgetReport
from assay.findings.quantities import BYTES, COUNT
from assay.messages import plural
from assay.views.tables import Column, Table
from assay.views.text import figures

_MAX_EXACT = 10_000
"""Smaller counts are shown with all their digits."""


def _count(value: float | None) -> str:
    small = value is not None and value < _MAX_EXACT and value == int(value)
    return units.exact(int(value or 0)) if small else units.count(value)


_SHOW: dict[str, Callable[[float | None], str]] = {
    COUNT: _count,
    BYTES: units.size,
    RATIO: lambda value: units.UNKNOWN if value is None else f"{value:.2f}×",
}

_COLUMNS: tuple[Column[BudgetLine], ...] = (
    Column("budget", lambda line: line.label, name="name"),
    Column("value", lambda line: figures.shown(line.value, _SHOW[line.unit]), "right"),
    Column("limit", lambda line: _SHOW[line.unit](line.limit), "right"),
    Column("verdict", lambda line: line.verdict),
    Column("method", lambda line: line.detail or figures.how(line.value), shrinks=True, drops=True),
)


def budget_table(report: BudgetReport) -> Table:
    """One row per limit."""
    return Table(_COLUMNS, report.lines)


def budget_line(report: BudgetReport) -> str:
    """`budget: 3 limits passed, 1 exceeded, 1 unknown`."""
    counts = {verdict: sum(line.verdict == verdict for line in report.lines) for verdict in (EXCEEDED, UNKNOWN)}
    passed = plural(len(report.lines) - sum(counts.values()), "limit")
    return ", ".join([f"budget: {passed} {PASSED}", *(f"{count} {name}" for name, count in counts.items() if count)])
