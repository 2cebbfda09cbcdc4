"""Columns of numbers and texts beside a tree: their values, format and sort keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len

from assay import units
from assay.views.tables import printable
from assay.views.tui.index import Flags, Ints


class ColumnValues(Protocol):
    """The values of a column, by row."""

    def __getitem__(self, row: int) -> Any:
        """The raw value; None if unknown."""

    def keys(self) -> NDArray[np.float64]:
        """The sort key of every row; NaN if unknown."""


class Numbers:
    """Numbers, with a mask of those that are known."""

    def __init__(self, figures: NDArray[Any], known: Flags | None = None) -> None:
        self.figures = figures
        self.known: Flags = np.ones(len(figures), np.bool_) if known is None else known

    def __getitem__(self, row: int) -> int | float | None:
        return self.figures[row].item() if self.known[row] else None

    def keys(self) -> NDArray[np.float64]:
        """The numbers themselves."""
        return np.where(self.known, self.figures.astype(np.float64), np.nan)


class Words:
    """Texts with few distinct values, stored as ids."""

    def __init__(self, ids: Ints, distinct: Sequence[str | None]) -> None:
        self.ids = ids
        self.distinct = distinct

    def __getitem__(self, row: int) -> str | None:
        return self.distinct[int(self.ids[row])]

    def keys(self) -> NDArray[np.float64]:
        """The alphabetical ranks."""
        ranks = {text: rank for rank, text in enumerate(sorted({text for text in self.distinct if text is not None}))}
        keys = [np.nan if text is None else ranks[text] for text in self.distinct]
        return np.asarray(keys, dtype=np.float64)[self.ids]


class DeferredTexts:
    """Texts that are loaded in the background for the rows on screen."""

    def __init__(self, count: int) -> None:
        self.loaded: dict[int, str | None] = {}
        self._count = count

    def __getitem__(self, row: int) -> str | None:
        return self.loaded.get(row)

    def keys(self) -> NDArray[np.float64]:
        """The alphabetical ranks of the texts loaded so far."""
        return words([self.loaded.get(row) for row in range(self._count)]).keys()


@dataclass(frozen=True)
class SheetColumn:
    """One column: its heading, its values and their format."""

    id: str
    title: str
    source: ColumnValues | Callable[[], ColumnValues]
    """The values, or a function that computes them when they are first needed."""
    about: str
    """A description for the command palette."""
    show: Callable[[Any], str] = str
    right: bool = False
    italic: bool = False
    on: bool = True
    """Whether it is visible by default."""
    widest: int = 32
    """The maximum width of a column of texts, in terminal cells."""
    cells: int = 0
    """A fixed width in terminal cells; 0 derives the width from the values."""
    name: str = ""
    """The name in exported CSV, if it differs from the title."""

    @cached_property
    def values(self) -> ColumnValues:
        """The values, computed on first access."""
        return self.source() if callable(self.source) else self.source

    def text(self, row: int) -> str:
        """The formatted value."""
        value = self.values[row]
        return units.UNKNOWN if value is None else printable(self.show(value))

    @cached_property
    def width(self) -> int:
        """The width in terminal cells, the same for all rows, so that columns do not move while scrolling."""
        if self.cells:
            return self.cells
        if isinstance(self.values, Words):
            longest = max((cell_len(printable(text)) for text in self.values.distinct if text), default=1)
            return max(len(self.title), min(longest, self.widest))
        return max(len(self.title), 9)


def words(texts: Sequence[str | None]) -> Words:
    """The texts of a column, one per row, stored as one id per row and a list of the distinct texts."""
    distinct: dict[str | None, int] = {}
    ids = np.fromiter((distinct.setdefault(text, len(distinct)) for text in texts), np.int64, len(texts))
    return Words(ids, list(distinct) or [None])


def numbers(values: Sequence[int | float | None]) -> Numbers:
    """The values of a column of numbers; None is unknown."""
    plain = np.asarray(values)
    if plain.dtype.kind in "if":
        return Numbers(plain)
    known = np.fromiter((value is not None for value in values), np.bool_, len(values))
    figures = [0 if value is None else value for value in values]
    whole = all(type(value) is int and abs(value) < 1 << 62 for value in figures)
    return Numbers(np.asarray(figures, dtype=np.int64 if whole else np.float64), known)
