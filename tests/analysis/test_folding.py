"""Folding is lossless: unfolding the rows gives the tree again, and equal neighbours are always folded."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.analysis.folding import FoldedRow, TreeNode, children, fold, row_name, run_name


@st.composite
def trees(draw) -> list[TreeNode]:
    """A tree in depth-first order, with few names and keys so that many subtrees are equal."""
    nodes = [TreeNode("root", None, "k")]
    pending = [0]
    while pending and len(nodes) < 60:
        parent = pending.pop()
        first = draw(st.integers(0, 2))
        for offset in range(draw(st.integers(0, 4))):
            stem = draw(st.sampled_from(["", "", "", "conv"]))
            pending.append(len(nodes))
            nodes.append(TreeNode(f"{stem}{first + offset}", parent, draw(st.sampled_from("kkkl"))))
    return nodes


def preorder(nodes: list[TreeNode]) -> list[int]:
    below = children(nodes)

    def walk(index: int) -> list[int]:
        return [index, *(inner for child in below[index] for inner in walk(child))]

    return walk(0)


def unfolded(rows: list[FoldedRow]) -> list[int]:
    """The nodes in depth-first order, with every run expanded."""

    def walk(at: int, copy: int) -> list[int]:
        result = [rows[at].members[copy]]
        for inner, row in enumerate(rows):
            if row.parent == at:
                for number in range(row.run):
                    result += walk(inner, copy * row.run + number)
        return result

    return walk(0, 0)


def subtree(nodes: list[TreeNode], index: int) -> tuple:
    """The key and the nested children of a node, for a direct comparison of subtrees."""
    below = children(nodes)[index]
    return nodes[index].key, [(nodes[child].name, subtree(nodes, child)) for child in below]


@given(trees(), st.booleans())
def test_unfolding_gives_the_tree_back(nodes, runs):
    assert unfolded(fold(nodes, runs=runs)) == preorder(nodes)


@given(trees(), st.lists(st.integers(0, 100), min_size=64, max_size=64))
def test_sums_are_kept(nodes, weights):
    rows = fold(nodes)
    assert sum(weights[member] for row in rows for member in row.members) == sum(weights[: len(nodes)])
    for index, row in enumerate(rows):
        inner = [member for other in rows if other.parent == index for member in other.members]
        assert sorted(inner) == sorted(child for member in row.members for child in children(nodes)[member])


@given(trees())
def test_exactly_the_equal_consecutive_siblings_are_folded(nodes):
    rows = fold(nodes)
    for row in rows:
        assert len({repr(subtree(nodes, member)) for member in row.members}) == 1
    for before, after in pairwise(rows):
        if before.parent == after.parent and before.run == after.run == 1:
            one, two = nodes[before.members[0]], nodes[after.members[0]]
            follows = one.name[:-1] == two.name[:-1] and int(one.name[-1]) + 1 == int(two.name[-1])
            same = subtree(nodes, before.members[0]) == subtree(nodes, after.members[0])
            assert not (follows and same)


@given(trees())
def test_with_gaps_the_rows_still_cover_every_node_once(nodes):
    rows = fold(nodes, gaps=True)
    assert sorted(member for row in rows for member in row.members) == list(range(len(nodes)))
    for index, row in enumerate(rows):
        assert len({repr(subtree(nodes, member)) for member in row.members}) == 1
        inner = [member for other in rows if other.parent == index for member in other.members]
        assert sorted(inner) == sorted(child for member in row.members for child in children(nodes)[member])


@given(trees())
def test_gaps_never_add_rows(nodes):
    assert len(fold(nodes, gaps=True)) <= len(fold(nodes)) <= len(nodes)


def test_an_odd_sibling_does_not_split_its_run():
    keys = [1 if number == 7 else 0 for number in range(12)]
    nodes = [TreeNode("root", None, 0), *(TreeNode(str(number), 0, key) for number, key in enumerate(keys))]
    _, run, odd = fold(nodes, gaps=True)
    assert (row_name(nodes, run), run.run, run.gaps, run.odd_beside) == ("0–6, 8–11", 11, True, None)
    assert (row_name(nodes, odd), odd.run, odd.gaps, odd.odd_beside) == ("7", 1, False, 1)
    assert [row_name(nodes, row) for row in fold(nodes)] == ["root", "0–6", "7", "8–11"]


def test_siblings_of_another_kind_end_a_run():
    kinds = "cccrccc"
    nodes = [TreeNode("root", None, 0), *(TreeNode(str(at), 0, kind, kind) for at, kind in enumerate(kinds))]
    assert [row_name(nodes, row) for row in fold(nodes, gaps=True)] == ["root", "0–2", "3", "4–6"]


def test_without_a_majority_no_sibling_is_odd():
    nodes = [TreeNode("root", None, 0), *(TreeNode(f"h{at}", 0, at % 2) for at in range(8))]
    rows = fold(nodes, gaps=True)[1:]
    assert [(row_name(nodes, row), row.odd_beside) for row in rows] == [("h0, 2, 4, 6", None), ("h1, 3, 5, 7", None)]


def test_without_runs_every_node_has_its_own_row():
    nodes = [TreeNode("root", None, 0), *(TreeNode(str(number), 0, 0) for number in range(5))]
    assert [row.members for row in fold(nodes, runs=False)] == [(index,) for index in range(6)]
    assert [(row.members, row.run, row.depth) for row in fold(nodes)] == [((0,), 1, 0), ((1, 2, 3, 4, 5), 5, 1)]


def test_siblings_without_consecutive_numbers_are_not_folded():
    nodes = [
        TreeNode("root", None, 0),
        *(TreeNode(name, 0, 0) for name in ("q", "k", "v", "conv1", "conv2", "3", "5")),
    ]
    assert [row.run for row in fold(nodes)] == [1, 1, 1, 1, 2, 1, 1]


def test_a_deep_chain_does_not_exhaust_the_stack():
    nodes = [TreeNode("0", index - 1 if index else None, 0) for index in range(20_000)]
    assert fold(nodes)[-1].depth == 19_999


@pytest.mark.parametrize(
    ("first", "run", "name"), [("0", 32, "0–31"), ("conv1", 3, "conv1–3"), ("norm", 1, "norm"), ("9", 2, "9–10")]
)
def test_names_of_runs(first, run, name):
    assert run_name(first, run) == name
