"""Columns of a page: numbers rounded to four digits, and text as indices into distinct words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from msgspec.structs import replace

from assay import units
from assay.document.provenance import Measured, Provenance
from assay.views.html.page import PageColumn, PageTable, Unit
from assay.views.tables import Column, Table, percent, printable
from assay.views.text.traces_tables import duration

_UNITS: dict[Callable[[Any], str], Unit] = {
    units.seconds: "seconds",
    units.size: "bytes",
    units.count: "count",
    units.exact: "exact",
    percent: "share",
    units.ratio: "ratio",
    units.joules: "joules",
    units.watts: "watts",
}
"""The unit of a column's numbers by how text formats write them."""


_IN_TRACE = Measured("the profiler that wrote the trace")
"""Nanoseconds occur only in traces."""
LARGE = 20_000
"""Rows from which a table has fewer columns and digits, so that a page of 100,000 modules stays below 2 MB."""
_DIGITS, _FEW_DIGITS = 6, 3


def numbers(
    key: str, title: str, values: Iterable[float | int | None], unit: Unit, how: Provenance | None = None, **more: Any
) -> PageColumn:
    """A column of numbers, with how they were obtained."""
    method, text = provenance(how)
    listed = list(values)
    digits = _DIGITS if len(listed) < LARGE else _FEW_DIGITS
    rounded = [None if value is None else round_number(value, digits) for value in listed]
    return PageColumn(key=key, title=title, unit=unit, numbers=rounded, method=method, how=text, **more)


def words(key: str, title: str, texts: Iterable[str | None], **more: Any) -> PageColumn:
    """A column of text; None is unknown."""
    index: dict[str, int] = {}
    codes = [-1 if text is None else index.setdefault(printable(text), len(index)) for text in texts]
    shared, ends = _without_common_starts(list(index))
    distinct = len(index) == len(codes)
    return PageColumn(key=key, title=title, shared=shared, words=ends, codes=None if distinct else codes, **more)


def _without_common_starts(texts: Sequence[str]) -> tuple[list[int] | None, list[str]]:
    """How many characters each text has in common with the one before, and what follows them; None if that is little.

    Paths of modules share most of their characters: without them, 100,000 take 10 KB instead of 300.
    """
    shared = [_in_common(text, before) for text, before in zip(texts, ("", *texts), strict=False)]
    if 2 * sum(shared) < sum(map(len, texts)):
        return None, list(texts)
    return shared, [text[start:] for text, start in zip(texts, shared, strict=True)]


def texts(column: PageColumn) -> list[str | None]:
    """The text of each row of a column of words."""
    whole: list[str] = []
    for at, end in enumerate(column.words or ()):
        start = whole[-1][: column.shared[at]] if column.shared and whole else ""
        whole.append(start + end)
    return list(whole) if column.codes is None else [None if code < 0 else whole[code] for code in column.codes]


def _in_common(text: str, before: str) -> int:
    """The number of characters that both texts start with."""
    pairs = enumerate(zip(text, before, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(text), len(before)))


def round_number(value: float | int, digits: int = _DIGITS) -> float | int | None:
    """The number with so many significant digits; integers stay exact, and None stands for what JSON cannot write."""
    if isinstance(value, int):
        return value
    return float(f"{value:.{digits}g}") if isfinite(value) else None


def page_columns(
    columns: Iterable[PageColumn], rows: int, rare: Collection[str] = (), *, full: bool
) -> list[PageColumn]:
    """The columns in which any row has a value; a large table has those called `rare` only if it is `full`."""
    left_out = () if full or rows < LARGE else rare
    return [one for one in columns if one.key not in left_out and _is_known(one)]


def _is_known(column: PageColumn) -> bool:
    """Whether any row has a value."""
    return any(column.words or ()) or any(value is not None for value in column.numbers or ())


def provenance(how: Provenance | None) -> tuple[str, str]:
    """The method, such as `measured`, and the clock, count or model behind it; both are empty for None."""
    if how is None:
        return "", ""
    return type(how).__name__.lower(), getattr(how, "by", "") or getattr(how, "why", "")


def page_table(
    table: Table, links: Mapping[str, str] | None = None, states: Mapping[str, str] | None = None
) -> PageTable:
    """A table of the text views as a page's table; `links` and `states` by the title of the column."""
    columns = [
        replace(one, link=(links or {}).get(one.title, ""), state=(states or {}).get(one.title, ""))
        if one.words is not None
        else one
        for one in (_column(column, table.rows) for column in table.columns)
    ]
    footer = [[column.text(row) for column in table.columns] for row in table.footer]
    return PageTable(rows=len(table.rows), columns=columns, footer=footer or None)


def _column(column: Column[Any], rows: Sequence[Any]) -> PageColumn:
    values = [column.value(row) for row in rows]
    title = column.title.strip() or column.key
    hidden = column.drops >= _RARE
    if column.show is duration:
        seconds = (None if value is None else value / 1e9 for value in values)
        return numbers(column.key, title, seconds, "seconds", _IN_TRACE, hidden=hidden)
    if column.show in _UNITS:
        return numbers(column.key, title, values, _UNITS[column.show], bar=column.bar, hidden=hidden)
    shown = map(str, values) if column.key == STATE else map(column.text, rows)
    texts = [None if text == units.UNKNOWN else text.strip() for text in shown]
    made = words(column.key, title, texts, hidden=hidden, right=column.align == "right")
    if not values or not all(_is_number(value) for value in values):
        return made
    return replace(made, unit="number", numbers=[None if value is None else round_number(value) for value in values])


STATE = "state"
"""The column that text shows as a sign: the page has the word, and draws its own."""
_RARE = 5
"""Columns that text hides this early are hidden on the page until they are chosen."""


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
