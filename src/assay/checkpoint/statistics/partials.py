"""What the passes learn from chunks: partials that merge to the same value in any order and any grouping."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from assay.checkpoint.statistics.kernel import kernel
from assay.checkpoint.statistics.layout import DISTINCT_LIMIT
from assay.checkpoint.statistics.reference import add_pair

Counts = NDArray[np.uint64]
Doubles = NDArray[np.float64]

DENSE_FROM = 1 << 21
"""A refining pass's finds are added up once there are more than this."""
NOTHING = np.zeros(0, dtype=np.uint64)


class Tiles(Struct, frozen=True):
    """Records by tile; kept in the order of the tensor, whatever order they came in."""

    index: NDArray[np.int64]
    records: Doubles
    digests: Counts


class Partial(Struct, frozen=True):
    """What the first pass knows."""

    patterns: NDArray[np.uint16]
    counts: Counts
    """How often each of `patterns` occurs."""
    tiles: Tiles
    columns: Doubles | None
    """The columns' energies as pairs of doubles."""
    distinct: tuple[Counts, Counts] | None
    """Distinct values of wide formats and how often each occurs; None where there are more than the limit."""


class Refined(Struct, frozen=True):
    """What a refining pass knows."""

    found: tuple[NDArray[np.uint32], ...]
    """List and halfword of every value behind a listed prefix."""
    dense: Counts
    """The same added up, once there are many; else empty."""
    inside: Counts
    """How many values lie in the span of each edge."""
    planes: NDArray[Any]
    """Counts of each halfword below the top."""
    tiles: Tiles

    def finds(self) -> tuple[NDArray[np.uint32], Counts]:
        """List and halfword of all finds as sorted keys, and how often each occurs; no counts where it is once."""
        if not self.dense.size:
            return kernel.sorted(self.found[0] if len(self.found) == 1 else np.concatenate(self.found))[0], NOTHING
        total = _Dense()
        total.add(self.dense)
        total.tally(self.found)
        places = np.flatnonzero(total.counts)
        return places.astype(np.uint32), total.counts[places]


def merge(partials: Iterable[Partial]) -> Partial:
    """All partials of one tensor as one; takes them one at a time."""
    left = iter(partials)
    first, second = next(left, None), next(left, None)
    if first is not None and second is None:
        return first
    counts = np.zeros(65536, dtype=np.uint64)
    tiles: list[Tiles] = []
    columns: Doubles | None = None
    distinct: tuple[Counts, Counts] | None = (NOTHING, NOTHING)
    for partial in chain(filter(None, (first, second)), left):
        counts[partial.patterns] += partial.counts
        tiles.append(partial.tiles)
        columns = _added_columns(columns, partial.columns)
        distinct = _united(distinct, partial.distinct)
    return Partial(*sparse(counts), _joined(tiles), columns, distinct)


def merge_refined(partials: Iterable[Refined]) -> Refined:
    """All refining partials of one tensor as one; takes them one at a time."""
    left = iter(partials)
    first, second = next(left, None), next(left, None)
    if first is None:
        raise ValueError("nothing to merge")
    if second is None:
        return first
    dense, lists, tiles = _Dense(), list[NDArray[np.uint32]](), list[Tiles]()
    inside, planes = np.zeros_like(first.inside), np.zeros(first.planes.shape, dtype=np.uint64)
    for partial in chain((first, second), left):
        inside += partial.inside
        planes += partial.planes
        tiles.append(partial.tiles)
        lists.extend(partial.found)
        dense.add(partial.dense)
        if sum(found.size for found in lists) > DENSE_FROM:
            dense.tally(lists)
            lists.clear()
    return Refined(tuple(lists), dense.counts, inside, planes, _joined(tiles))


def sparse(counts: Counts) -> tuple[NDArray[np.uint16], Counts]:
    """The patterns that occur, and how often."""
    patterns = np.flatnonzero(counts)
    return patterns.astype(np.uint16), counts[patterns]


def _added_columns(a: Doubles | None, b: Doubles | None) -> Doubles | None:
    if a is None or b is None:
        return b.copy() if b is not None else a
    add_pair(a, b[0])
    a[1] += b[1]
    return a


def _joined(tiles: list[Tiles]) -> Tiles:
    index = np.concatenate([part.index for part in tiles])
    order = np.argsort(index, kind="stable")
    records = np.concatenate([part.records for part in tiles])[order]
    return Tiles(index[order], records, np.concatenate([part.digests for part in tiles])[order])


def _united(a: tuple[Counts, Counts] | None, b: tuple[Counts, Counts] | None) -> tuple[Counts, Counts] | None:
    if a is None or b is None:
        return None
    both = grouped(np.concatenate((a[0], b[0])), np.concatenate((a[1], b[1])))
    return both if both[0].size <= DISTINCT_LIMIT else None


def grouped(values: NDArray[Any], counts: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Values in rising order, equal ones once, with their counts added up."""
    order = values.argsort(kind="stable")
    values = values[order]
    if not values.size:
        return values, counts
    starts = np.concatenate(([0], (values[1:] != values[:-1]).nonzero()[0] + 1))
    return values[starts], np.add.reduceat(counts[order], starts)


class _Dense:
    """Counts by list and halfword, as long as the keys that were met ask for."""

    def __init__(self) -> None:
        self.counts: Counts = NOTHING

    def add(self, counts: Counts) -> None:
        """Add other counts."""
        self._at_least(counts.size)[: counts.size] += counts

    def tally(self, lists: Iterable[NDArray[np.uint32]]) -> None:
        """Add lists of finds."""
        for found in lists:
            kernel.tally(found, self._at_least(((int(found.max(initial=0)) >> 16) + 1) << 16))

    def _at_least(self, size: int) -> Counts:
        known = self.counts
        if size > known.size:
            self.counts = np.zeros(size, dtype=np.uint64)
            self.counts[: known.size] = known
        return self.counts
