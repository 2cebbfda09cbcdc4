"""Kernels, copies and fills on accelerators, and the host span that launched each.

A kernel belongs to the launch call with the same correlation id. If the trace has no record of that call, it belongs
to the op with the same external id, provided that the recorded launches confirm this meaning of external ids.
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
"""The share of recorded launches that external ids must match before they are used for unrecorded ones."""


@dataclass
class Activity:
    """Everything that ran on accelerators; each array has one entry per kernel, copy or fill."""

    rows: Ints
    """Row numbers in the columns."""
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
    """Bytes that copies moved; -1 if not recorded."""
    launch: SmallInts
    """The index of the launch call in the forest; -1 if it is not recorded."""
    source: SmallInts
    """The innermost host span responsible for it; -1 if unknown."""
    by_graph: Flags

    @property
    def end(self) -> Ints:
        """The end time of each."""
        return self.start + self.duration


def activity_of(columns: Columns, forest: Forest) -> Activity | None:
    """Everything that ran on accelerators; None if nothing did."""
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
    """The index in the forest of the call that launched each kernel; -1 if it is not recorded."""
    is_call = (columns.roles == Role.RUNTIME)[columns["name"][columns["link_row"]]]
    rows, ids = columns["link_row"][is_call], columns["link_correlation"][is_call]
    order = np.argsort(ids, kind="stable")
    place = places_of(correlation, ids[order])
    matched = (place >= 0) & (correlation > 0)
    launches = np.full(len(correlation), -1, dtype=np.int32)
    launches[matched] = forest.place_of(columns)[rows[order][place[matched]]]
    return launches


def _by_external_id(columns: Columns, forest: Forest, rows: Ints, launch: SmallInts) -> SmallInts:
    """The op with the same external id as each kernel; -1 if there is none or these ids cannot be trusted."""
    operations = np.flatnonzero((columns.roles == Role.OP)[forest.name])
    ids = columns["external"][forest.rows[operations]]
    operations, ids = operations[ids > 0], ids[ids > 0]
    order = np.argsort(ids, kind="stable")
    external = columns["external"][rows]
    place = places_of(external, ids[order])
    matched = (place >= 0) & (external > 0)
    op = np.full(len(rows), -1, dtype=np.int32)
    if not matched.any():
        return op
    op[matched] = operations[order[place[matched]]]
    # Older traces store the correlation id there, which may equal some op's id by chance.
    checked = (launch >= 0) & (op >= 0)
    contains = forest.start[op] <= forest.start[launch]
    contains &= (forest.end[op] >= forest.end[launch]) & (forest.track[op] == forest.track[launch])
    if checked.any() and contains[checked].mean() < _TRUSTED:
        return np.full(len(rows), -1, dtype=np.int32)
    before = op >= 0
    before[before] = forest.start[op[before]] <= columns["start"][rows[before]]
    return np.where(before, op, -1).astype(np.int32)


def _devices(columns: Columns, rows: Ints, recorded: Ints) -> tuple[Ints, list[str]]:
    """The device of each kernel: from the event's arguments if recorded there, else its process."""
    processes = np.array([track.process for track in columns.tracks])
    texts = np.where(recorded >= 0, recorded.astype(str), processes[columns["track"][rows]])
    names, place = np.unique(texts, return_inverse=True)
    return place.astype(np.int64), [f"GPU {name}" for name in names.tolist()]


def _streams(columns: Columns, rows: Ints, recorded: Ints) -> Ints:
    """The stream of each kernel: from the event's arguments if recorded there, else its thread."""
    return np.where(recorded >= 0, recorded, -2 - columns["track"][rows].astype(np.int64))
