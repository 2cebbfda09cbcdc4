"""Backward spans and the layers whose forward they answer: by sequence number, else by the profiler's arrows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from assay.trace.read.columns import Columns, Flags, Ints, SmallInts
from assay.trace.read.modules import OPTIMIZER, Modules
from assay.trace.read.nesting import Forest, looked_up

EVALUATE = "autograd::engine::evaluate_function"


@dataclass
class Backward:
    """For every span of the forest what it does outside the forward of layers."""

    layer: SmallInts
    """The layer whose backward it belongs to; -1 where there is none."""
    inside: Flags
    """Whether it belongs to a backward pass at all."""
    optimizing: Flags
    """Whether it belongs to an optimizer's step."""


def backward_of(columns: Columns, forest: Forest, modules: Modules) -> Backward:
    """Which spans are backward work, and of which layer."""
    numbers, backward = _sequences(columns, forest)
    started = np.array([name.startswith(EVALUATE) for name in columns.names] or [False], dtype=bool)
    begins = forest.flagged(started) | backward
    layer = np.full(forest.size, -1, dtype=np.int32)
    if begins.any():
        forward = _by_sequence(forest, numbers, np.flatnonzero(backward), ~backward & (numbers >= 0))
        forward = _by_arrows(columns, forest, begins, forward)
        answered = forward >= 0
        answers = looked_up(modules.layer, looked_up(modules.owner, forward, -1), -1)
        layer = looked_up(answers, forest.nearest(answered), -1)
    optimizer = np.array([name.startswith(OPTIMIZER) for name in columns.names] or [False], dtype=bool)
    return Backward(
        layer=layer,
        inside=forest.nearest(begins) >= 0 if begins.any() else begins,
        optimizing=forest.nearest(forest.flagged(optimizer)) >= 0,
    )


def _sequences(columns: Columns, forest: Forest) -> tuple[Ints, Flags]:
    """For every span its sequence number or -1, and whether it is a backward span that has one."""
    places = forest.place_of(columns)[columns["sequence_row"]]
    known = places >= 0
    numbers = np.full(forest.size, -1, dtype=np.int64)
    backward = np.zeros(forest.size, dtype=bool)
    numbers[places[known]] = columns["sequence_number"][known]
    backward[places[known]] = columns["sequence_backward"][known] != 0
    return numbers, backward


def _by_sequence(forest: Forest, numbers: Ints, asked: Ints, forward: Flags) -> SmallInts:
    """For every backward span the last forward one before it with its number: that one made the graph's node."""
    found = np.full(forest.size, -1, dtype=np.int32)
    places = np.flatnonzero(forward)
    places = places[np.lexsort((forest.start[places], numbers[places]))]
    known = numbers[places]
    first = np.searchsorted(known, numbers[asked], side="left")
    last = np.searchsorted(known, numbers[asked], side="right") - 1
    late = np.flatnonzero(last >= first)
    while len(late):
        late = late[forest.start[places[last[late]]] > forest.start[asked[late]]]
        last[late] -= 1
        late = late[last[late] >= first[late]]
    matched = last >= first
    found[asked[matched]] = places[last[matched]]
    return found


def _by_arrows(columns: Columns, forest: Forest, begins: Flags, forward: SmallInts) -> SmallInts:
    """The same with what the profiler's arrows add for spans without a number."""
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
    wanted = (heads >= 0) & (source >= 0)
    wanted &= begins[heads] & (forward[heads] < 0)
    forward = forward.copy()
    forward[heads[wanted]] = source[wanted]
    return forward
