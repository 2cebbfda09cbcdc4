"""Small tables that many reports share: named facts, notes, drawings, and what is missing with the reason."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from assay.views.tables import Column, Table

Pairs = Iterable[tuple[str, str]]
"""Values in words, each after what it is about."""

_NAME, _VALUE = itemgetter(0), itemgetter(1)


def facts_table(facts: Pairs, title: str = "figure") -> Table:
    """Facts without headings; `title` is that of the names in Markdown."""
    return Table([Column(title, _NAME), Column("value", _VALUE, shrinks=True)], list(facts), bare=True)


def reasons_table(reasons: Pairs, *, bare: bool = False) -> Table:
    """What is missing, and why."""
    return Table([Column("what", _NAME, shrinks=True), Column("why", _VALUE, shrinks=True)], list(reasons), bare=bare)


def drawing_table(label: str, title: str, lines: Pairs) -> Table:
    """A drawing line by line, with a label at the left of each."""
    return Table([Column(label, _NAME, "right"), Column(title, _VALUE)], list(lines), bare=True)


def notes_table(notes: Iterable[str], title: str = "note") -> Table:
    """One note per row, without a heading."""
    return Table([Column(title, str, shrinks=True)], list(notes), bare=True)
