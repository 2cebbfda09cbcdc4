"""Columns of figures and words beside a tree: their values, how they are written, how they sort."""

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
    """What a column holds."""

    def __getitem__(self, row: int) -> Any:
        """The raw value; None where it is unknown."""

    def keys(self) -> NDArray[np.float64]:
        """What rows are sorted by; an unknown is not a number."""


class Numbers:
    """Figures, with a mask for those nobody knows."""

    def __init__(self, figures: NDArray[Any], known: Flags | None = None) -> None:
        self.figures = figures
        self.known: Flags = np.ones(len(figures), np.bool_) if known is None else known

    def __getitem__(self, row: int) -> int | float | None:
        return self.figures[row].item() if self.known[row] else None

    def keys(self) -> NDArray[np.float64]:
        """The figures themselves."""
        return np.where(self.known, self.figures.astype(np.float64), np.nan)


class Words:
    """Texts of which there are few distinct ones."""

    def __init__(self, ids: Ints, distinct: Sequence[str | None]) -> None:
        self.ids = ids
        self.distinct = distinct

    def __getitem__(self, row: int) -> str | None:
        return self.distinct[int(self.ids[row])]

    def keys(self) -> NDArray[np.float64]:
        """The alphabetical ranks."""
        ranks = {text: rank for rank, text in enumerate(sorted({text for text in self.distinct if text is not None}))}
        places = [np.nan if text is None else ranks[text] for text in self.distinct]
        return np.asarray(places, dtype=np.float64)[self.ids]


class DeferredTexts:
    """Texts that come in while somebody looks, for the rows they look at."""

    def __init__(self, count: int) -> None:
        self.found: dict[int, str | None] = {}
        self._count = count

    def __getitem__(self, row: int) -> str | None:
        return self.found.get(row)

    def keys(self) -> NDArray[np.float64]:
        """The alphabetical ranks of what has come in so far."""
        return words([self.found.get(row) for row in range(self._count)]).keys()


@dataclass(frozen=True)
class SheetColumn:
    """One component of a row: its heading, its values and how they look."""

    id: str
    title: str
    source: ColumnValues | Callable[[], ColumnValues]
    """The values, or what makes them when they are first looked at."""
    about: str
    """What it is, for the label panel."""
    show: Callable[[Any], str] = str
    right: bool = False
    italic: bool = False
    on: bool = True
    """Whether it is on show unless somebody said otherwise."""
    widest: int = 32
    cells: int = 0
    """How wide it is, where that does not follow from its values."""

    @cached_property
    def values(self) -> ColumnValues:
        """What it holds."""
        return self.source() if callable(self.source) else self.source

    def text(self, row: int) -> str:
        """The value as it is written."""
        value = self.values[row]
        return units.UNKNOWN if value is None else printable(self.show(value))

    @cached_property
    def width(self) -> int:
        """Cells it takes: those of figures never move while scrolling."""
        if self.cells:
            return self.cells
        if isinstance(self.values, Words):
            longest = max((cell_len(printable(text)) for text in self.values.distinct if text), default=1)
            return max(len(self.title), min(longest, self.widest))
        return max(len(self.title), 9)


def words(texts: Sequence[str | None]) -> Words:
    """A column of texts."""
    distinct: dict[str | None, int] = {}
    ids = np.fromiter((distinct.setdefault(text, len(distinct)) for text in texts), np.int64, len(texts))
    return Words(ids, list(distinct) or [None])


def numbers(values: Sequence[int | float | None]) -> Numbers:
    """A column of figures; None is unknown."""
    plain = np.asarray(values)
    if plain.dtype.kind in "if":
        return Numbers(plain)
    known = np.fromiter((value is not None for value in values), np.bool_, len(values))
    figures = [0 if value is None else value for value in values]
    whole = all(type(value) is int and abs(value) < 1 << 62 for value in figures)
    return Numbers(np.asarray(figures, dtype=np.int64 if whole else np.float64), known)


def percent(value: float) -> str:
    """A share as a percentage."""
    return units.share(value, 1.0)
