"""Nesting, compared with the tree that generated the spans and with brute-force containment."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_making import Making

from assay.trace.read import reference, scanner
from assay.trace.read.reading import open_trace, summarize

ENGINES = [reference, *([scanner.scanner] if scanner.is_native() else [])]
NAMES = ["", "a", "a.b", "b", None]
"""Labels of modules; None means an op."""


@st.composite
def forests(draw):
    """Nested spans with times in whole nanoseconds: (name, start, length, children), several roots on two threads."""

    def node(start, room, depth):
        length = draw(st.integers(1, room))
        children, at = [], start
        while depth < 4 and draw(st.booleans()):
            gap = draw(st.integers(0, 3))
            left = start + length - at - gap
            if left < 1:
                break
            child = node(at + gap, left, depth + 1)
            children.append(child)
            at = child[1] + child[2]
        return draw(st.sampled_from(NAMES)), start, length, children

    found = []
    for thread in (11, 12):
        at = draw(st.integers(0, 5))
        for _ in range(draw(st.integers(0, 4))):
            root = node(at, 60, 0)
            found.append((thread, root))
            at = root[1] + root[2] + draw(st.integers(0, 9))
    return found


def every(nodes):
    for node in nodes:
        yield node
        yield from every(node[3])


def expected(forest):
    """Own and inclusive time of each module, computed on the tree itself."""
    own, total, calls, outside = {}, {}, {}, {}

    def walk(node, module, around):
        name, _, length, children = node
        mine = length - sum(child[2] for child in children)
        if name is not None:
            module = name
            calls[name] = calls.get(name, 0) + 1
            total[name] = total.get(name, 0) + (length if name not in around else 0)
        if module is None:
            outside["ops"] = outside.get("ops", 0) + mine
        else:
            own[module] = own.get(module, 0) + mine
        for child in children:
            walk(child, module, {*around, module})

    for _, root in forest:
        walk(root, None, frozenset())
    return own, total, calls, outside.get("ops", 0)


def made_of(forest, seed):
    made = Making()
    for thread, root in forest:
        for name, start, length, _ in every([root]):
            if name is None:
                made.span("aten::op", start, length, tid=thread)
            else:
                made.label(name, start, length, tid=thread)
    random.Random(seed).shuffle(made.events)
    # Spans with the same beginning and length nest in the order of the file: outer before inner.
    depth = {id(event): place for place, event in enumerate(made.events)}
    assert len(depth) == len(made.events)
    return made


@settings(max_examples=150)
@given(forests(), st.integers(0, 9))
def test_layers_are_those_of_the_tree(tmp_path_factory, forest, seed):
    twins = [(thread, node[1], node[2]) for thread, root in forest for node in every([root])]
    if len(set(twins)) < len(twins) or not twins:
        return  # which of two equal spans encloses the other is undefined
    path = made_of(forest, seed).write(tmp_path_factory.mktemp("t") / "t.json")
    own, total, calls, outside = expected(forest)
    for engine in ENGINES:
        trace = summarize(open_trace(path, engine=engine))
        rows = {row.name.replace("(model)", ""): row for row in trace.layers}
        assert {name: row.cpu_self_ns for name, row in rows.items()} == own
        assert {name: row.cpu_total_ns for name, row in rows.items()} == total
        assert {name: row.calls for name, row in rows.items()} == calls
        assert sum(row.cpu_ns for row in trace.outside if row.what == "other") == outside
        assert sum(own.values()) + sum(row.cpu_ns for row in trace.outside) == trace.cpu_ns


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30), st.integers(0, 1), st.integers(0, 1)), max_size=25))
def test_any_spans_are_made_to_nest(spans):
    """Spans that overlap, too: no end after the parent's, no overlapping siblings, no longer span."""
    start, length, track, soft = (np.array([span[i] for span in spans], dtype=np.int64) for i in range(4))
    arguments = start, length, track.astype(np.int32), soft.astype(np.uint8), np.arange(len(spans), dtype=np.int32)
    results = [engine.nest(*arguments) for engine in ENGINES]
    order, parent, end, cut = results[-1]
    for other in results[:-1]:
        assert all(np.array_equal(one, two) for one, two in zip(other, results[-1], strict=True))
    begin = start[order]
    assert (end >= begin).all()
    assert (end <= begin + length[order]).all()
    assert (cut == 0) == bool((end == begin + length[order]).all()) or cut > 0
    for place, above in enumerate(parent.tolist()):
        if above >= 0:
            assert begin[above] <= begin[place] <= end[place] <= end[above]
            assert track[order[above]] == track[order[place]]
        siblings = [
            other for other in range(place) if parent[other] == above and track[order[other]] == track[order[place]]
        ]
        assert all(end[other] <= begin[place] for other in siblings)


def test_of_two_overlapping_spans_the_python_frame_is_cut(engine):
    start, length = np.array([0, 10]), np.array([20, 100])
    rows = np.arange(2, dtype=np.int32)
    track = np.zeros(2, dtype=np.int32)
    frame_first = engine.nest(start, length, track, np.array([1, 0], dtype=np.uint8), rows)
    assert (frame_first[1].tolist(), frame_first[2].tolist(), frame_first[3]) == ([-1, -1], [10, 110], 1)
    frame_second = engine.nest(start, length, track, np.array([0, 1], dtype=np.uint8), rows)
    assert (frame_second[1].tolist(), frame_second[2].tolist()) == ([-1, 0], [20, 20])


@pytest.mark.parametrize("seed", range(3))
def test_nearest_flag_against_climbing(engine, seed):
    rng = np.random.default_rng(seed)
    parent = np.array([rng.integers(-1, place) if place else -1 for place in range(200)], dtype=np.int32)
    flags = (rng.random(200) < 0.2).astype(np.uint8)
    for place, found in enumerate(engine.nearest(parent, flags).tolist()):
        climbing = place
        while climbing >= 0 and not flags[climbing]:
            climbing = int(parent[climbing])
        assert found == climbing


@pytest.mark.parametrize("seed", range(3))
def test_own_time_is_without_the_nearest_inside(engine, seed):
    rng = np.random.default_rng(seed)
    start, length = rng.integers(0, 1000, 60), rng.integers(1, 300, 60)
    zeros, rows = np.zeros(60, dtype=np.int32), np.arange(60, dtype=np.int32)
    order, parent, end, _ = engine.nest(start, length, zeros, zeros.astype(np.uint8), rows)
    begin, flags = start[order], (rng.random(60) < 0.6).astype(np.uint8)
    inside = {place: [] for place in range(60)}
    for place in range(60):
        above = int(parent[place])
        while above >= 0 and not flags[above]:
            above = int(parent[above])
        if above >= 0 and flags[place]:
            inside[above].append(end[place] - begin[place])
    want = [int(end[i] - begin[i] - sum(inside[i])) if flags[i] else 0 for i in range(60)]
    assert engine.own(parent, begin, end, flags).tolist() == want
