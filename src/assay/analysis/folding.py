"""Folding a tree: a run of equal siblings, including their subtrees, becomes one row.

Every subtree gets a number, from the leaves up; equal subtrees share one. So folding is linear in the tree's size.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence

from msgspec import Struct

_NUMBERED = re.compile(r"(?P<stem>.*?)(?P<number>0|[1-9][0-9]{0,17})", re.DOTALL)


class TreeNode(Struct, frozen=True):
    """A node of a tree; parents come before their children, siblings in order."""

    name: str
    """Its name among its siblings: `3` or `conv1`."""
    parent: int | None
    key: Hashable
    """Siblings fold only if their keys and their subtrees are equal."""


class FoldedRow(Struct, frozen=True):
    """A row of the folded tree; parent rows come before their children."""

    members: tuple[int, ...]
    """The nodes it represents: its run in every copy of the rows above it, in tree order."""
    run: int
    """Number of siblings folded into the row; 1 if it is not folded."""
    depth: int
    parent: int | None


def fold(nodes: Sequence[TreeNode], *, runs: bool = True) -> list[FoldedRow]:
    """The rows of the folded tree, depth first; one row per node if `runs` is false."""
    below = children(nodes)
    subtrees = _subtree_numbers(nodes, below)
    roots = [index for index, node in enumerate(nodes) if node.parent is None]
    rows: list[FoldedRow] = []
    stack: list[tuple[tuple[int, ...], int, int, int | None]] = [((root,), 1, 0, None) for root in reversed(roots)]
    while stack:
        members, run, depth, parent = stack.pop()
        here = len(rows)
        rows.append(FoldedRow(members, run, depth, parent))
        shown = below[members[0]]
        spans = list(_spans([nodes[child].name for child in shown], [subtrees[child] for child in shown], runs))
        for start, end in reversed(spans):
            inner = tuple(child for member in members for child in below[member][start:end])
            stack.append((inner, end - start, depth + 1, here))
    return rows


def children(nodes: Sequence[TreeNode]) -> list[list[int]]:
    """The children of each node, in order."""
    below: list[list[int]] = [[] for _ in nodes]
    for index, node in enumerate(nodes):
        if node.parent is not None:
            below[node.parent].append(index)
    return below


def run_name(first: str, run: int) -> str:
    """The name of a run of `run` siblings whose first is `first`: `run_name("0", 32) == "0–31"`."""
    matched = _NUMBERED.fullmatch(first)
    return f"{first}–{int(matched['number']) + run - 1}" if matched and run > 1 else first


def _subtree_numbers(nodes: Sequence[TreeNode], below: list[list[int]]) -> list[int]:
    """A number for each node; nodes share it if their keys and their subtrees with all names are equal."""
    numbers: dict[Hashable, int] = {}
    result = [0] * len(nodes)
    for index in range(len(nodes) - 1, -1, -1):
        inner = tuple((nodes[child].name, result[child]) for child in below[index])
        result[index] = numbers.setdefault((nodes[index].key, inner), len(numbers))
    return result


def _spans(names: list[str], subtrees: list[int], runs: bool) -> Iterator[tuple[int, int]]:
    """Start and end of each run of equal siblings with consecutive numbers."""
    start = 0
    for end in range(1, len(names) + 1):
        if end < len(names) and runs and subtrees[end] == subtrees[end - 1] and _follows(names[end - 1], names[end]):
            continue
        yield start, end
        start = end


def _follows(before: str, after: str) -> bool:
    one, two = _NUMBERED.fullmatch(before), _NUMBERED.fullmatch(after)
    if one is None or two is None or one["stem"] != two["stem"]:
        return False
    return int(two["number"]) == int(one["number"]) + 1
