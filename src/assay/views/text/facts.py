"""Small tables that many reports share: named facts, notes, and missing items with the reason."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from assay.views.tables import Column, Table

Pairs = Iterable[tuple[str, str]]
"""Pairs of a name and its value, both as text."""

_NAME, _VALUE = itemgetter(0), itemgetter(1)


def facts_table(facts: Pairs) -> Table:
    """One named fact per row, without headings."""
    return Table([Column("name", _NAME), Column("value", _VALUE, shrinks=True)], list(facts), bare=True)


def reasons_table(reasons: Pairs, *, bare: bool = False) -> Table:
    """What is missing, with the reason."""
    columns = [Column("missing", _NAME, shrinks=True), Column("reason", _VALUE, shrinks=True)]
    return Table(columns, list(reasons), bare=bare)


def notes_table(notes: Iterable[str], title: str = "note") -> Table:
    """One note per row, without a heading."""
    return Table([Column(title, str, shrinks=True)], list(notes), bare=True)
