"""Partial results of the passes over chunks; merging gives the same result in any order and grouping."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from assay.checkpoint.statistics.checksums import Piece
from assay.checkpoint.statistics.kernel import kernel
from assay.checkpoint.statistics.layout import DISTINCT_LIMIT
from assay.checkpoint.statistics.reference import add_pair

Counts = NDArray[np.uint64]
Doubles = NDArray[np.float64]
Table = tuple[Counts, Counts]
"""Distinct values in ascending order, and their counts."""

DENSE_FROM = 1 << 21
"""Matches of a refining pass are converted to counts once there are more than this."""
EMPTY = np.zeros(0, dtype=np.uint64)


class Tiles(Struct, frozen=True):
    """One record and digest per tile, sorted by the position of the tile in the tensor."""

    index: NDArray[np.int64]
    records: Doubles
    digests: Counts


class Partial(Struct, frozen=True):
    """The result of the first pass over one or more chunks."""

    patterns: NDArray[np.uint16]
    counts: Counts
    """The count of each of `patterns`."""
    tiles: Tiles
    columns: Doubles | None
    """The energies of the columns, each as the sum of two doubles."""
    distinct: Table | None
    """Those of wide formats; None if there are more than the limit."""
    pieces: tuple[Piece, ...] = ()
    """The checksum of each chunk, if they were computed."""


class Refined(Struct, frozen=True):
    """The result of a refining pass over one or more chunks. A halfword is 16 bits of a value."""

    matches: tuple[NDArray[np.uint32], ...]
    """For every value with a listed prefix: the number of the list and the next halfword, in one integer."""
    dense: Counts
    """Counts by list and halfword instead, once there are many matches; else empty."""
    edge_counts: Counts
    """The number of values in the span of each edge."""
    planes: NDArray[Any]
    """The counts of all halfwords, for each position below the top halfword."""
    tiles: Tiles

    def sorted_matches(self) -> tuple[NDArray[np.uint32], Counts]:
        """All matches in ascending order, and their counts; without counts each stands for one value."""
        if not self.dense.size:
            return kernel.sorted(self.matches[0] if len(self.matches) == 1 else np.concatenate(self.matches))[
                0
            ], EMPTY
        total = _Dense()
        total.add(self.dense)
        total.tally(self.matches)
        keys = np.flatnonzero(total.counts)
        return keys.astype(np.uint32), total.counts[keys]


def merge(partials: Iterable[Partial], most_distinct: int = DISTINCT_LIMIT) -> Partial:
    """The merged first-pass results of one tensor; consumes them one at a time."""
    remaining = iter(partials)
    first, second = next(remaining, None), next(remaining, None)
    if first is not None and second is None:
        return first
    counts = np.zeros(65536, dtype=np.uint64)
    tiles: list[Tiles] = []
    columns: Doubles | None = None
    distinct: Table | None = (EMPTY, EMPTY)
    pieces: tuple[Piece, ...] = ()
    for partial in chain(filter(None, (first, second)), remaining):
        counts[partial.patterns] += partial.counts
        tiles.append(partial.tiles)
        columns = _added_columns(columns, partial.columns)
        distinct = _united(distinct, partial.distinct, most_distinct)
        pieces += partial.pieces
    return Partial(*sparse(counts), _joined(tiles), columns, distinct, pieces)


def merge_refined(partials: Iterable[Refined]) -> Refined:
    """The merged refining-pass results of one tensor; consumes them one at a time."""
    remaining = iter(partials)
    first, second = next(remaining, None), next(remaining, None)
    if first is None:
        raise ValueError("nothing to merge")
    if second is None:
        return first
    dense, lists, tiles = _Dense(), list[NDArray[np.uint32]](), list[Tiles]()
    edge_counts, planes = np.zeros_like(first.edge_counts), np.zeros(first.planes.shape, dtype=np.uint64)
    for partial in chain((first, second), remaining):
        edge_counts += partial.edge_counts
        planes += partial.planes
        tiles.append(partial.tiles)
        lists.extend(partial.matches)
        dense.add(partial.dense)
        if sum(matches.size for matches in lists) > DENSE_FROM:
            dense.tally(lists)
            lists.clear()
    return Refined(tuple(lists), dense.counts, edge_counts, planes, _joined(tiles))


def sparse(counts: Counts) -> tuple[NDArray[np.uint16], Counts]:
    """The patterns with a non-zero count, and their counts."""
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


def _united(a: Table | None, b: Table | None, most: int) -> Table | None:
    if a is None or b is None:
        return None
    both = grouped(np.concatenate((a[0], b[0])), np.concatenate((a[1], b[1])))
    return both if both[0].size <= most else None


def grouped(values: NDArray[Any], counts: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The distinct values in ascending order, with the sums of their counts."""
    order = values.argsort(kind="stable")
    values = values[order]
    if not values.size:
        return values, counts
    starts = np.concatenate(([0], (values[1:] != values[:-1]).nonzero()[0] + 1))
    return values[starts], np.add.reduceat(counts[order], starts)


class _Dense:
    """Counts by list and halfword; grows with the largest key."""

    def __init__(self) -> None:
        self.counts: Counts = EMPTY

    def add(self, counts: Counts) -> None:
        """Add counts."""
        self._at_least(counts.size)[: counts.size] += counts

    def tally(self, lists: Iterable[NDArray[np.uint32]]) -> None:
        """Count lists of matches."""
        for matches in lists:
            kernel.tally(matches, self._at_least(((int(matches.max(initial=0)) >> 16) + 1) << 16))

    def _at_least(self, size: int) -> Counts:
        previous = self.counts
        if size > previous.size:
            self.counts = np.zeros(size, dtype=np.uint64)
            self.counts[: previous.size] = previous
        return self.counts
