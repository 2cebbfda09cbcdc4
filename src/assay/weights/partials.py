"""What the passes learn from chunks: partials that merge to the same value in any order and any grouping."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from assay.weights.kernel import kernel
from assay.weights.layout import DISTINCT_LIMIT
from assay.weights.reference import add_pair

Counts = NDArray[np.uint64]
Doubles = NDArray[np.float64]

SLOTS = 128
"""More prefixes than a refining pass ever looks behind."""
DENSE_FROM = 1 << 21
"""A refining pass's finds are added up once there are more than this."""


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
    distinct: Counts | None
    """Distinct values of wide formats; None where there are more than the limit."""


class Refined(Struct, frozen=True):
    """What a refining pass knows."""

    found: tuple[NDArray[np.uint32], ...]
    """Slot and halfword of every value behind a wanted prefix, as lists."""
    dense: Counts | None
    """The same added up, once the lists have grown long."""
    planes: Counts
    tiles: Tiles

    def finds(self) -> tuple[NDArray[np.uint32], NDArray[np.int64] | None]:
        """Slot and halfword of all finds as sorted keys, and where they are counted how many come before each."""
        if self.dense is None:
            return kernel.sorted(self.found[0] if len(self.found) == 1 else np.concatenate(self.found))[0], None
        total = self.dense.copy() if self.found else self.dense
        for found in self.found:
            kernel.tally(found, total)
        places = np.flatnonzero(total)
        return places.astype(np.uint32), np.concatenate(([0], np.cumsum(total[places].astype(np.int64))))


def merge(partials: Iterable[Partial]) -> Partial:
    """All partials of one tensor as one; takes them one at a time."""
    left = iter(partials)
    first, second = next(left, None), next(left, None)
    if first is not None and second is None:
        return first
    counts = np.zeros(65536, dtype=np.uint64)
    tiles: list[Tiles] = []
    columns: Doubles | None = None
    distinct: Counts | None = np.zeros(0, dtype=np.uint64)
    for partial in chain(filter(None, (first, second)), left):
        counts[partial.patterns] += partial.counts
        tiles.append(partial.tiles)
        columns = _added_columns(columns, partial.columns)
        distinct = _united(distinct, partial.distinct)
    return Partial(*sparse(counts), _joined(tiles), columns, distinct)


def merge_refined(partials: Iterable[Refined]) -> Refined:
    """All refining partials of one tensor as one; takes them one at a time."""
    found: list[NDArray[np.uint32]] = []
    total: Counts | None = None
    planes: Counts | None = None
    tiles: list[Tiles] = []
    for partial in partials:
        found.extend(partial.found)
        planes = partial.planes if planes is None else planes + partial.planes
        tiles.append(partial.tiles)
        if partial.dense is not None:
            total = partial.dense.copy() if total is None else total + partial.dense
        if sum(part.size for part in found) > DENSE_FROM:
            total = np.zeros(SLOTS << 16, dtype=np.uint64) if total is None else total
            for part in found:
                kernel.tally(part, total)
            found = []
    if planes is None:
        raise ValueError("nothing to merge")
    return Refined(tuple(found), total, planes, _joined(tiles))


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


def _united(a: Counts | None, b: Counts | None) -> Counts | None:
    if a is None or b is None:
        return None
    both = np.union1d(a, b)
    return both if both.size <= DISTINCT_LIMIT else None
