"""Folding a tree: runs of equal siblings become one row that stands for all of them, subtrees included.

Subtrees get a number each, equal ones the same, from the leaves up; so folding is linear in the tree's size.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence

from msgspec import Struct

_NUMBERED = re.compile(r"(?P<stem>.*?)(?P<number>0|[1-9][0-9]{0,17})", re.DOTALL)


class TreeNode(Struct, frozen=True):
    """A node of a tree; its parent comes before it, its siblings in their order."""

    name: str
    """Among its siblings: `3` or `conv1`."""
    parent: int | None
    key: Hashable
    """What must be equal, besides the subtrees, for two siblings to be one."""


class FoldedRow(Struct, frozen=True):
    """A row of the folded tree; its parent row comes before it."""

    members: tuple[int, ...]
    """The nodes it stands for: its own run in every copy of the rows above it, in the tree's order."""
    run: int
    """How many siblings it folds; 1 where it is not folded."""
    depth: int
    parent: int | None


def fold(nodes: Sequence[TreeNode], *, runs: bool = True) -> list[FoldedRow]:
    """The rows in the order a person reads a tree; with `runs` false one row a node."""
    below = children(nodes)
    same = _subtree_numbers(nodes, below)
    roots = [index for index, node in enumerate(nodes) if node.parent is None]
    rows: list[FoldedRow] = []
    stack: list[tuple[tuple[int, ...], int, int, int | None]] = [((root,), 1, 0, None) for root in reversed(roots)]
    while stack:
        members, run, depth, parent = stack.pop()
        here = len(rows)
        rows.append(FoldedRow(members, run, depth, parent))
        shown = below[members[0]]
        spans = list(_spans([nodes[child].name for child in shown], [same[child] for child in shown], runs))
        for start, end in reversed(spans):
            inner = tuple(child for member in members for child in below[member][start:end])
            stack.append((inner, end - start, depth + 1, here))
    return rows


def children(nodes: Sequence[TreeNode]) -> list[list[int]]:
    """For each node its children, in order."""
    below: list[list[int]] = [[] for _ in nodes]
    for index, node in enumerate(nodes):
        if node.parent is not None:
            below[node.parent].append(index)
    return below


def run_name(first: str, run: int) -> str:
    """The name of a run by that of its first node: `run_name("0", 32) == "0–31"`."""
    matched = _NUMBERED.fullmatch(first)
    return f"{first}–{int(matched['number']) + run - 1}" if matched and run > 1 else first


def _subtree_numbers(nodes: Sequence[TreeNode], below: list[list[int]]) -> list[int]:
    """A number for each node, equal where keys, names below and subtrees are."""
    numbers: dict[Hashable, int] = {}
    result = [0] * len(nodes)
    for index in range(len(nodes) - 1, -1, -1):
        inner = tuple((nodes[child].name, result[child]) for child in below[index])
        result[index] = numbers.setdefault((nodes[index].key, inner), len(numbers))
    return result


def _spans(names: list[str], same: list[int], runs: bool) -> Iterator[tuple[int, int]]:
    """Where each run of equal siblings with consecutive numbers begins and ends."""
    start = 0
    for end in range(1, len(names) + 1):
        if end < len(names) and runs and same[end] == same[end - 1] and _follows(names[end - 1], names[end]):
            continue
        yield start, end
        start = end


def _follows(before: str, after: str) -> bool:
    one, two = _NUMBERED.fullmatch(before), _NUMBERED.fullmatch(after)
    if one is None or two is None or one["stem"] != two["stem"]:
        return False
    return int(two["number"]) == int(one["number"]) + 1
