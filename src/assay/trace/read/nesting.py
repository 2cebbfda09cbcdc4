"""Which host span lies in which, with what that says about time: the forest that layers are read from."""

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
    """Host spans by track and start; every array has a place for each, and parents are such places."""

    rows: SmallInts
    """Rows in the columns."""
    parent: SmallInts
    start: Ints
    end: Ints
    """Never behind the parent's."""
    name: SmallInts
    track: SmallInts
    overlapping: int
    """How often a span had to be cut for all to nest."""

    @property
    def size(self) -> int:
        """How many spans there are."""
        return len(self.rows)

    @property
    def duration(self) -> Ints:
        """How long each span is."""
        return self.end - self.start

    @cached_property
    def own(self) -> Ints:
        """How long each span is without those in it."""
        return self.own_among(np.ones(self.size, dtype=bool))

    @cached_property
    def track_starts(self) -> Ints:
        """Where each track's spans begin, and the end of the last one's."""
        return np.flatnonzero(np.diff(self.track, prepend=-1, append=-1))

    def flagged(self, names: Flags) -> Flags:
        """The spans whose name has a flag."""
        return names[self.name]

    def nearest(self, flags: Flags) -> SmallInts:
        """For each span the nearest with a flag among itself and those around it; -1 where there is none."""
        found: SmallInts = scanner.nearest(self.parent, flags.astype(np.uint8))
        return found

    def own_among(self, flags: Flags) -> Ints:
        """For each span with a flag its time without the others with one in it."""
        found: Ints = scanner.own(self.parent, self.start, self.end, flags.astype(np.uint8))
        return found

    def depths(self) -> SmallInts:
        """How many spans are around each."""
        found = [0] * self.size
        for place, above in enumerate(self.parent.tolist()):
            if above >= 0:
                found[place] = found[above] + 1
        return np.array(found, dtype=np.int32)

    def place_of(self, columns: Columns) -> SmallInts:
        """For each row of the columns its place here; -1 for what is no host span."""
        places = np.full(columns.rows, -1, dtype=np.int32)
        places[self.rows] = np.arange(self.size, dtype=np.int32)
        return places

    def at(self, track: SmallInts, time: Ints) -> SmallInts:
        """The innermost span on `track` around each `time`; -1 where there is none."""
        found = np.full(len(time), -1, dtype=np.int32)
        bounds = self.track_starts
        for first, behind in itertools.pairwise(bounds):
            asked = np.flatnonzero(track == self.track[first])
            before = np.searchsorted(self.start[first:behind], time[asked], side="right") - 1
            found[asked] = np.where(before >= 0, before + first, -1)
        passed = np.flatnonzero(found >= 0)
        while len(passed):
            passed = passed[self.end[found[passed]] < time[passed]]
            found[passed] = self.parent[found[passed]]
            passed = passed[found[passed] >= 0]
        return found


def forest_of(columns: Columns, engine: Any = None) -> Forest:
    """The host spans of a trace, nested."""
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
    """Values added up by place, exactly: sums of nanoseconds stay whole in a double for a hundred days."""
    return np.bincount(places, weights=values, minlength=size).astype(np.int64)


def places_of(wanted: Ints, known: Ints) -> Ints:
    """The place of each wanted number among known ones in order; -1 where it is not there."""
    if not len(known):
        return np.full(len(wanted), -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[place] == wanted, place, -1)


def looked_up(values: NDArray[Any], places: SmallInts | Ints, missing: int) -> NDArray[Any]:
    """The value at each place; `missing` where a place is -1."""
    return np.append(values, np.array(missing, dtype=values.dtype))[places]
