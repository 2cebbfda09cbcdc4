"""The flat index and the visible rows, compared with brute force on a plain tree."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.analysis import folding
from assay.document.tree import reading_order
from assay.views.tui import index as indexing
from assay.views.tui.rows import Rows

Tree = tuple[list[int], list[str], list[int]]

QUICK = settings(max_examples=40)


@st.composite
def trees(draw: st.DrawFn, most: int = 40) -> Tree:
    """Parents in preorder, names, and keys that make rows equal."""
    parents, names, counts, path = [-1], ["root"], {}, [0]
    for row in range(1, draw(st.integers(1, most))):
        path = path[: draw(st.integers(1, len(path)))]
        parents.append(path[-1])
        number = counts[path[-1]] = counts.get(path[-1], -1) + 1
        names.append(draw(st.sampled_from([str(number), str(number), f"layer{number}", "weight", str(2 * number)])))
        path.append(row)
    keys = [draw(st.sampled_from([0, 0, 0, 1])) for _ in parents]
    return parents, names, keys


def subtree(parents: list[int], row: int) -> list[int]:
    inside = {row}
    return [at for at in range(row, len(parents)) if at == row or (parents[at] in inside and not inside.add(at))]


def visible(parents: list[int], opened: np.ndarray) -> list[int]:
    def shown(row: int) -> bool:
        above = parents[row]
        return above < 0 or (bool(opened[above]) and shown(above))

    return [row for row in range(len(parents)) if shown(row)]


@QUICK
@given(trees())
def test_every_subtree_is_one_slice_and_slices_nest(tree: Tree) -> None:
    parents, names, _ = tree
    index = indexing.build(parents, names)
    for row in range(len(parents)):
        assert list(range(row, index.end[row])) == subtree(parents, row)
        assert index.depth[row] == len(index.ancestors(row))
        if parents[row] >= 0:
            assert index.end[row] <= index.end[parents[row]]


@QUICK
@given(trees(), st.data())
def test_totals_are_sums_over_subtrees(tree: Tree, data: st.DataObject) -> None:
    parents, names, _ = tree
    own = data.draw(st.lists(st.integers(0, 10**6), min_size=len(parents), max_size=len(parents)))
    totals = indexing.build(parents, names).totals(np.asarray(own))
    assert totals.tolist() == [sum(own[at] for at in subtree(parents, row)) for row in range(len(parents))]


@QUICK
@given(trees())
def test_runs_equal_those_of_the_folding_module(tree: Tree) -> None:
    parents, names, keys = tree
    folded = indexing.fold_runs(indexing.build(parents, names), np.asarray(keys))
    found = set()
    for head in np.flatnonzero(folded.run):
        members = tuple(int(folded.origin[child]) for child in np.flatnonzero(folded.parent == head))
        assert len(members) == folded.run[head]
        found.add(members)
    nodes = [
        folding.TreeNode(name, None if at < 0 else at, key)
        for name, at, key in zip(names, parents, keys, strict=True)
    ]
    wanted = set()
    for row in folding.fold(nodes):
        if row.run > 1:
            wanted |= {row.members[at : at + row.run] for at in range(0, len(row.members), row.run)}
    assert found == wanted


@QUICK
@given(trees())
def test_folding_runs_keeps_every_row_in_order(tree: Tree) -> None:
    parents, names, keys = tree
    folded = indexing.fold_runs(indexing.build(parents, names), np.asarray(keys))
    real = np.flatnonzero(folded.run == 0)
    assert folded.origin[real].tolist() == list(range(len(parents)))
    for row in real:
        above = folded.parent[row]
        while above >= 0 and folded.run[above]:
            above = folded.parent[above]
        assert (folded.origin[above] if above >= 0 else -1) == parents[folded.origin[row]]


@QUICK
@given(trees(), st.permutations(list(range(40))))
def test_rows_in_any_order_are_put_into_preorder(tree: Tree, shuffle: list[int]) -> None:
    parents = tree[0]
    ranks = [at for at in shuffle if at < len(parents)]
    shuffled = [-1 if parents[at] < 0 else ranks.index(parents[at]) for at in ranks]
    order = reading_order(shuffled)
    place = {row: at for at, row in enumerate(order)}
    straight = [place.get(shuffled[row], -1) for row in order]
    index = indexing.build(straight, ["x"] * len(straight))
    assert sorted(order) == list(range(len(parents)))
    assert all(list(range(row, index.end[row])) == subtree(straight, row) for row in range(len(straight)))


@QUICK
@given(trees(), st.data())
def test_visible_rows_are_sorted_and_correct_after_any_folding(tree: Tree, data: st.DataObject) -> None:
    parents, names, _ = tree
    rows = Rows(indexing.build(parents, names))
    for _ in range(data.draw(st.integers(1, 12))):
        rows.move_to(data.draw(st.integers(0, len(rows) - 1)))
        rows.toggle(rows.row)
        assert rows.shown.tolist() == visible(parents, rows.opened) == sorted(rows.shown.tolist())
    some = data.draw(st.lists(st.integers(0, len(parents) - 1), unique=True))
    rows.set_open(np.asarray(some, dtype=np.int64), data.draw(st.booleans()))
    assert rows.shown.tolist() == visible(parents, rows.opened)


@QUICK
@given(trees(), st.data())
def test_folding_and_unfolding_a_row_changes_nothing(tree: Tree, data: st.DataObject) -> None:
    parents, names, _ = tree
    opened = np.asarray(data.draw(st.lists(st.booleans(), min_size=len(parents), max_size=len(parents))))
    rows = Rows(indexing.build(parents, names), opened)
    before = rows.shown.tolist()
    rows.move_to(data.draw(st.integers(0, len(rows) - 1)))
    row = rows.row
    rows.toggle(row)
    rows.toggle(row)
    assert rows.shown.tolist() == before
    assert rows.row == row


@QUICK
@given(trees(), st.data())
def test_a_filter_shows_matches_with_their_ancestors_and_can_be_removed(tree: Tree, data: st.DataObject) -> None:
    parents, names, _ = tree
    index = indexing.build(parents, names)
    opened = np.asarray(data.draw(st.lists(st.booleans(), min_size=len(parents), max_size=len(parents))))
    rows = Rows(index, opened)
    before, stood = rows.shown.tolist(), rows.row
    matches = np.asarray(data.draw(st.lists(st.booleans(), min_size=len(parents), max_size=len(parents))))
    rows.filter(matches)
    found = [int(row) for row in np.flatnonzero(matches)]
    wanted = {*found, *(up for row in found for up in index.ancestors(row))}
    assert rows.shown.tolist() == sorted(wanted)
    if matches.any():
        assert matches[rows.row]
    seen = set()
    for _ in range(len(parents)):
        if rows.next_match(1):
            seen.add(rows.row)
    assert seen == {int(row) for row in np.flatnonzero(matches)}
    rows.move_to(rows.position(stood))
    rows.filter(None)
    assert set(before) <= set(rows.shown.tolist())


@QUICK
@given(trees(), st.data())
def test_a_list_is_sorted_and_the_tree_can_be_restored(tree: Tree, data: st.DataObject) -> None:
    parents, names, keys = tree
    index = indexing.fold_runs(indexing.build(parents, names), np.asarray(keys))
    rows = Rows(index)
    before = rows.shown.tolist()
    figures = data.draw(st.lists(st.floats(-9, 9) | st.just(float("nan")), min_size=len(index), max_size=len(index)))
    values = np.asarray(figures)
    rows.sort(values, descending=True, limit=5)
    listed = values[rows.shown]
    known = listed[~np.isnan(listed)]
    assert len(rows) == min(5, len(parents))
    assert (np.diff(known) <= 0).all()
    assert np.isnan(listed[len(known) :]).all()
    assert not index.run[rows.shown].any()
    rows.unsort()
    assert rows.shown.tolist() == before
