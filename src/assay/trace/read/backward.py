"""Matches backward spans to layers: by autograd's sequence numbers, else by the profiler's flow arrows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from assay.trace.read.columns import Columns, Flags, Ints, SmallInts
from assay.trace.read.modules import OPTIMIZER, Modules
from assay.trace.read.nesting import Forest, looked_up

EVALUATE = "autograd::engine::evaluate_function"


@dataclass
class Backward:
    """Which spans of the forest are backward or optimizer work; every array has one entry per span."""

    layer: SmallInts
    """The layer whose backward pass the span belongs to; -1 if none."""
    inside: Flags
    """Whether the span belongs to a backward pass at all."""
    optimizing: Flags
    """Whether the span belongs to an optimizer step."""


def backward_of(columns: Columns, forest: Forest, modules: Modules) -> Backward:
    """The backward and optimizer spans of a trace, with the layer of each backward span."""
    numbers, backward = _sequences(columns, forest)
    started = np.array([name.startswith(EVALUATE) for name in columns.names] or [False], dtype=bool)
    begins = forest.flagged(started) | backward
    layer = np.full(forest.size, -1, dtype=np.int32)
    if begins.any():
        forward = _by_sequence(forest, numbers, np.flatnonzero(backward), ~backward & (numbers >= 0))
        forward = _by_arrows(columns, forest, begins, forward)
        matched = forward >= 0
        forward_layer = looked_up(modules.layer, looked_up(modules.owner, forward, -1), -1)
        layer = looked_up(forward_layer, forest.nearest(matched), -1)
    optimizer = np.array([name.startswith(OPTIMIZER) for name in columns.names] or [False], dtype=bool)
    return Backward(
        layer=layer,
        inside=forest.nearest(begins) >= 0 if begins.any() else begins,
        optimizing=forest.nearest(forest.flagged(optimizer)) >= 0,
    )


def _sequences(columns: Columns, forest: Forest) -> tuple[Ints, Flags]:
    """Per span: its sequence number or -1, and whether it is a backward span with a sequence number."""
    places = forest.place_of(columns)[columns["sequence_row"]]
    on_host = places >= 0
    numbers = np.full(forest.size, -1, dtype=np.int64)
    backward = np.zeros(forest.size, dtype=bool)
    numbers[places[on_host]] = columns["sequence_number"][on_host]
    backward[places[on_host]] = columns["sequence_backward"][on_host] != 0
    return numbers, backward


def _by_sequence(forest: Forest, numbers: Ints, backward: Ints, forward: Flags) -> SmallInts:
    """Per backward span, the last earlier forward span with the same number, which created the autograd node."""
    sources = np.full(forest.size, -1, dtype=np.int32)
    places = np.flatnonzero(forward)
    places = places[np.lexsort((forest.start[places], numbers[places]))]
    ordered = numbers[places]
    first = np.searchsorted(ordered, numbers[backward], side="left")
    last = np.searchsorted(ordered, numbers[backward], side="right") - 1
    late = np.flatnonzero(last >= first)
    while len(late):
        late = late[forest.start[places[last[late]]] > forest.start[backward[late]]]
        last[late] -= 1
        late = late[last[late] >= first[late]]
    matched = last >= first
    sources[backward[matched]] = places[last[matched]]
    return sources


def _by_arrows(columns: Columns, forest: Forest, begins: Flags, forward: SmallInts) -> SmallInts:
    """`forward`, with sources from the profiler's flow arrows added for backward spans without a number."""
    is_end = columns["flow_end"] != 0
    if not is_end.any() or not (begins & (forward < 0)).any():
        return forward
    heads = forest.at(columns["flow_track"][is_end], columns["flow_time"][is_end])
    tails = forest.at(columns["flow_track"][~is_end], columns["flow_time"][~is_end])
    order = np.argsort(columns["flow_id"][~is_end], kind="stable")
    ids = columns["flow_id"][~is_end][order]
    last = np.searchsorted(ids, columns["flow_id"][is_end], side="right") - 1
    valid = last >= 0
    valid[valid] = ids[last[valid]] == columns["flow_id"][is_end][valid]
    source = np.where(valid, tails[order[last]], -1)
    added = (heads >= 0) & (source >= 0)
    added &= begins[heads] & (forward[heads] < 0)
    forward = forward.copy()
    forward[heads[added]] = source[added]
    return forward
