"""What ran on accelerators, and which host span launched it.

A kernel belongs to the launch call with its correlation id; where a trace has no record of that call, to the
operation with its external id, if the launches that are recorded show that the ids of this trace mean that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.trace.read.categories import ON_DEVICE, Role, device_kind, is_graph_launch
from assay.trace.read.columns import Columns, Flags, Ints, SmallInts
from assay.trace.read.nesting import Forest, looked_up, places_of

KINDS = ("compute", "communication", "copy", "fill")
BY_GRAPH = "launched by a CUDA graph"
NO_LAUNCH = "no launch record"
_TRUSTED = 0.99
"""The share of recorded launches that external ids must get right before they are used where there is none."""


@dataclass
class Activity:
    """Everything that ran on accelerators, a place each."""

    rows: Ints
    """Rows in the columns."""
    name: SmallInts
    kind: NDArray[np.int8]
    """Indices into `KINDS`."""
    start: Ints
    duration: Ints
    device: Ints
    """Indices into `devices`."""
    devices: list[str]
    stream: Ints
    bytes: Ints
    """What copies moved; -1 where nobody says."""
    launch: SmallInts
    """The place of the launch call in the forest; -1 where it is not recorded."""
    source: SmallInts
    """The innermost host span that is answerable; -1 where nobody knows."""
    by_graph: Flags

    @property
    def end(self) -> Ints:
        """When each ended."""
        return self.start + self.duration


def activity_of(columns: Columns, forest: Forest) -> Activity | None:
    """What ran on accelerators; None where nothing did."""
    rows = columns.with_role(*ON_DEVICE)
    if not len(rows):
        return None
    names = columns["name"][rows]
    link = places_of(rows, columns["link_row"])
    launch = _launches(columns, forest, looked_up(columns["link_correlation"], link, -1))
    graphs = np.array([is_graph_launch(name) for name in columns.names], dtype=bool)
    by_graph = looked_up(graphs[forest.name], launch, 0)
    source = np.where(by_graph, -1, launch).astype(np.int32)
    missing = launch < 0
    if missing.any():
        source[missing] = _by_external_id(columns, forest, rows, launch)[missing]
    device, devices = _devices(columns, rows, looked_up(columns["link_device"], link, -1))
    return Activity(
        rows=rows,
        name=names,
        kind=_kinds(columns)[names],
        start=columns["start"][rows],
        duration=columns["duration"][rows],
        device=device,
        devices=devices,
        stream=_streams(columns, rows, looked_up(columns["link_stream"], link, -1)),
        bytes=looked_up(columns["link_bytes"], link, -1),
        launch=launch,
        source=source,
        by_graph=by_graph,
    )


def _kinds(columns: Columns) -> NDArray[np.int8]:
    kinds = [
        KINDS.index(device_kind(role, name)) if role in ON_DEVICE else 0
        for role, name in zip(columns.roles.tolist(), columns.names, strict=True)
    ]
    return np.array(kinds, dtype=np.int8)


def _launches(columns: Columns, forest: Forest, correlation: Ints) -> SmallInts:
    """The place in the forest of the call that launched each; -1 where it is not recorded."""
    is_call = (columns.roles == Role.RUNTIME)[columns["name"][columns["link_row"]]]
    rows, ids = columns["link_row"][is_call], columns["link_correlation"][is_call]
    order = np.argsort(ids, kind="stable")
    place = places_of(correlation, ids[order])
    known = (place >= 0) & (correlation > 0)
    found = np.full(len(correlation), -1, dtype=np.int32)
    found[known] = forest.place_of(columns)[rows[order][place[known]]]
    return found


def _by_external_id(columns: Columns, forest: Forest, rows: Ints, launch: SmallInts) -> SmallInts:
    """The operation with each one's external id; -1 where these ids are not to be trusted."""
    operations = np.flatnonzero((columns.roles == Role.OP)[forest.name])
    ids = columns["external"][forest.rows[operations]]
    operations, ids = operations[ids > 0], ids[ids > 0]
    order = np.argsort(ids, kind="stable")
    wanted = columns["external"][rows]
    place = places_of(wanted, ids[order])
    known = (place >= 0) & (wanted > 0)
    found = np.full(len(rows), -1, dtype=np.int32)
    if not known.any():
        return found
    found[known] = operations[order[place[known]]]
    # Older traces put the correlation id there, which meets some operation's id by chance.
    checked = (launch >= 0) & (found >= 0)
    holds = forest.start[found] <= forest.start[launch]
    holds &= (forest.end[found] >= forest.end[launch]) & (forest.track[found] == forest.track[launch])
    if checked.any() and holds[checked].mean() < _TRUSTED:
        return np.full(len(rows), -1, dtype=np.int32)
    before = found >= 0
    before[before] = forest.start[found[before]] <= columns["start"][rows[before]]
    return np.where(before, found, -1).astype(np.int32)


def _devices(columns: Columns, rows: Ints, said: Ints) -> tuple[Ints, list[str]]:
    """The device of each: as its arguments say, else its process."""
    processes = np.array([track.process for track in columns.tracks])
    texts = np.where(said >= 0, said.astype(str), processes[columns["track"][rows]])
    names, place = np.unique(texts, return_inverse=True)
    return place.astype(np.int64), [f"GPU {name}" for name in names.tolist()]


def _streams(columns: Columns, rows: Ints, said: Ints) -> Ints:
    """The stream of each: as its arguments say, else its thread."""
    return np.where(said >= 0, said, -2 - columns["track"][rows].astype(np.int64))
