"""Small tables that many reports share: named facts, notes, drawings, and what is missing with the reason."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from assay.views.tables import Column, Table

Pairs = Iterable[tuple[str, str]]


class Fact(NamedTuple):
    """A value in words, and what it is about."""

    name: str
    value: str


def facts_table(facts: Pairs, title: str = "figure") -> Table:
    """Facts without headings; `title` is that of the names in Markdown."""
    return _pairs(facts, Column(title, _name), Column("value", _value, shrinks=True))


def reasons_table(reasons: Pairs, *, bare: bool = False) -> Table:
    """What is missing, and why."""
    return _pairs(reasons, Column("what", _name, shrinks=True), Column("why", _value, shrinks=True), bare=bare)


def drawing_table(label: str, title: str, lines: Pairs) -> Table:
    """A drawing line by line, with a label at the left of each."""
    return _pairs(lines, Column(label, _name, "right"), Column(title, _value))


def notes_table(notes: Iterable[str], title: str = "note") -> Table:
    """One note per row, without a heading."""
    return Table([Column(title, str, shrinks=True)], list(notes), bare=True)


def _pairs(pairs: Pairs, *columns: Column[Fact], bare: bool = True) -> Table:
    return Table(columns, [Fact(*pair) for pair in pairs], bare=bare)


def _name(fact: Fact) -> str:
    return fact.name


def _value(fact: Fact) -> str:
    return fact.value
