"""Choosing from the tables of a report, alike for every command: columns by name, the order and number of rows."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay.errors import UsageError
from assay.views.tables import Column, Table

ALL = "all"
"""The choice of every column."""


@dataclass(frozen=True)
class Choice:
    """Which columns and rows of the tables are shown; by default, those that each table chooses."""

    columns: tuple[str, ...] = ()
    sort: str | None = None
    """The column to sort by: numbers from the largest, text alphabetically, unknown values last."""
    top: int | None = None

    @property
    def all_columns(self) -> bool:
        """Whether every column was asked for."""
        return self.columns == (ALL,)


def parse_names(text: str | None) -> tuple[str, ...]:
    """The names in a list separated by commas: `parse_names("a, b") == ("a", "b")`."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def choose(tables: Sequence[Table], choice: Choice) -> list[Table]:
    """The tables with the chosen columns and rows; a table that has none of the named columns is left as it is.

    Raises:
        UsageError: No table has a column of that name.
    """
    chosen = list(tables)
    if choice.columns and not choice.all_columns:
        _check(chosen, choice.columns, "--columns")
        chosen = [_with_columns(table, choice.columns) for table in chosen]
    if choice.sort is not None:
        _check(tables, (choice.sort,), "--sort")
        chosen = [_sorted(before, shown, choice.sort) for before, shown in zip(tables, chosen, strict=True)]
    if choice.top is not None:
        chosen = [_first(table, choice.top) for table in chosen]
    return chosen


def spelled(name: str) -> str:
    """The name of a column without the differences that do not matter: case, and how words are joined."""
    return name.casefold().replace("_", " ").replace("-", " ").strip()


def _is_fixed(table: Table) -> bool:
    return table.bare or table.fixed


def _column(table: Table, name: str) -> Column[Any] | None:
    """The column with that key or title; None for a table that is not chosen from."""
    wanted = spelled(name)
    fitting = (one for one in (*table.columns, *table.extra) if wanted in (spelled(one.key), spelled(one.title)))
    return None if _is_fixed(table) else next(fitting, None)


def _columns(table: Table, name: str) -> list[Column[Any]]:
    """The column of that name, or those of the group of that name; none for a table that is not chosen from."""
    column = _column(table, name)
    if column is not None or _is_fixed(table):
        return [column] if column is not None else []
    return [one for one in (*table.columns, *table.extra) if one.group and spelled(one.group) == spelled(name)]


def _check(tables: Sequence[Table], names: Sequence[str], option: str) -> None:
    """Fail if no table has a column of one of the names."""
    chosen = [table for table in tables if not _is_fixed(table)]
    known = dict.fromkeys(one.group or one.title for table in chosen for one in (*table.columns, *table.extra))
    for name in names:
        if not any(_columns(table, name) for table in tables):
            raise UsageError(f"{option}: {unknown_column(name, known)}")


def unknown_column(name: str, known: Iterable[str]) -> str:
    """`unknown column 'bites': did you mean bytes?`, or which columns there are."""
    near = difflib.get_close_matches(spelled(name), [spelled(title) for title in known], 1)
    hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(filter(None, known))}"
    return f"unknown column {name!r}: {hint}"


def _with_columns(table: Table, names: Sequence[str]) -> Table:
    """The table with its first column, which names the rows, and the named ones, which are never hidden."""
    found = [column for name in names for column in _columns(table, name)]
    if not found:
        return table
    kept = {column.key: replace(column, drops=0) for column in (table.columns[0], *found)}
    return replace(table, columns=list(kept.values()))


def _sorted(table: Table, shown: Table, name: str) -> Table:
    column = _column(table, name)
    if column is None:
        return shown
    columns = [replace(one, drops=0) if one.key == column.key else one for one in shown.columns]
    return replace(shown, columns=columns, rows=sorted(shown.rows, key=_order(column)))


def _order(column: Column[Any]) -> Callable[[Any], tuple[bool, Any]]:
    def key(row: Any) -> tuple[bool, Any]:
        value = column.value(row) if column.order is None else column.order(row)
        if isinstance(value, int | float):
            return value != value, -value
        return value is None, "" if value is None else str(value)

    return key


def _first(table: Table, count: int) -> Table:
    """The first `count` rows, and below them how many more there are; a list of facts stays whole."""
    more = len(table.rows) - count
    if _is_fixed(table) or more <= 0:
        return table
    return replace(table, rows=table.rows[:count], footer=[{table.columns[0].key: f"({more} more)"}, *table.footer])
