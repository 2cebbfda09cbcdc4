"""The nesting of host spans and their self times: the forest from which layers are computed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.trace.read.categories import ON_HOST, Role
from assay.trace.read.columns import Columns, Flags, Ints, SmallInts
from assay.trace.read.scanner import scanner


@dataclass
class Forest:
    """Host spans sorted by track and start; every array has one entry per span, and parents are indices into them."""

    rows: SmallInts
    """Row numbers in the columns."""
    parent: SmallInts
    start: Ints
    end: Ints
    """End times, never later than the parent's."""
    name: SmallInts
    track: SmallInts
    overlapping: int
    """The number of spans that were cut so that all spans nest."""

    @property
    def size(self) -> int:
        """The number of spans."""
        return len(self.rows)

    @property
    def duration(self) -> Ints:
        """The total time of each span."""
        return self.end - self.start

    @cached_property
    def own(self) -> Ints:
        """The self time of each span."""
        return self.own_among(np.ones(self.size, dtype=bool))

    @cached_property
    def track_starts(self) -> Ints:
        """The index of each track's first span, followed by the number of spans."""
        return np.flatnonzero(np.diff(self.track, prepend=-1, append=-1))

    def flagged(self, names: Flags) -> Flags:
        """Whether each span's name is flagged in `names`."""
        return names[self.name]

    def nearest(self, flags: Flags) -> SmallInts:
        """Per span, the innermost flagged span among itself and its ancestors; -1 if none."""
        spans: SmallInts = scanner.nearest(self.parent, flags.astype(np.uint8))
        return spans

    def own_among(self, flags: Flags) -> Ints:
        """The time of each flagged span without the flagged spans nested in it; 0 for the rest."""
        times: Ints = scanner.own(self.parent, self.start, self.end, flags.astype(np.uint8))
        return times

    def depths(self) -> SmallInts:
        """The number of ancestors of each span."""
        depths = [0] * self.size
        for place, above in enumerate(self.parent.tolist()):
            if above >= 0:
                depths[place] = depths[above] + 1
        return np.array(depths, dtype=np.int32)

    def place_of(self, columns: Columns) -> SmallInts:
        """Per row of the columns, its index in this forest; -1 if it is not a host span."""
        places = np.full(columns.rows, -1, dtype=np.int32)
        places[self.rows] = np.arange(self.size, dtype=np.int32)
        return places

    def at(self, track: SmallInts, time: Ints) -> SmallInts:
        """The innermost span on each `track` at each `time`; -1 if none."""
        spans = np.full(len(time), -1, dtype=np.int32)
        bounds = self.track_starts
        for first, behind in itertools.pairwise(bounds):
            on_track = np.flatnonzero(track == self.track[first])
            before = np.searchsorted(self.start[first:behind], time[on_track], side="right") - 1
            spans[on_track] = np.where(before >= 0, before + first, -1)
        ended = np.flatnonzero(spans >= 0)
        while len(ended):
            ended = ended[self.end[spans[ended]] < time[ended]]
            spans[ended] = self.parent[spans[ended]]
            ended = ended[spans[ended] >= 0]
        return spans


def forest_of(columns: Columns, engine: Any = None) -> Forest:
    """The host spans of a trace as a forest of nested spans."""
    rows = columns.with_role(*ON_HOST).astype(np.int32)
    start, duration, track = columns["start"], columns["duration"], columns["track"]
    soft = (columns.roles == Role.PYTHON).astype(np.uint8)[columns["name"]]
    order, parent, end, overlapping = (engine or scanner).nest(start, duration, track, soft, rows)
    return Forest(
        rows=order,
        parent=parent,
        start=start[order],
        end=end,
        name=columns["name"][order],
        track=track[order],
        overlapping=overlapping,
    )


def added(places: SmallInts | Ints, values: Ints, size: int) -> Ints:
    """The sum of `values` per place; exact, because a double represents whole nanoseconds up to a hundred days."""
    return np.bincount(places, weights=values, minlength=size).astype(np.int64)


def places_of(numbers: Ints, ordered: Ints) -> Ints:
    """The index of each of `numbers` in the sorted array `ordered`; -1 if it is missing."""
    if not len(ordered):
        return np.full(len(numbers), -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(ordered, numbers), len(ordered) - 1)
    return np.where(ordered[place] == numbers, place, -1)


def looked_up(values: NDArray[Any], places: SmallInts | Ints, missing: int) -> NDArray[Any]:
    """`values` at the indices `places`, with `missing` for each index that is -1."""
    return np.append(values, np.array(missing, dtype=values.dtype))[places]
