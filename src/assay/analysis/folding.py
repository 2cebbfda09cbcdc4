"""Folding a tree: a run of equal siblings, including their subtrees, becomes one row.

Every subtree gets a number, from the leaves up; equal subtrees share one. So folding is linear in the tree's size.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence

from msgspec import Struct

from assay.analysis.name_ranges import ranges_text

_NUMBERED = re.compile(r"(?P<stem>.*?)(?P<number>0|[1-9][0-9]{0,17})", re.DOTALL)
_MIN_RUN = 3
"""Beside a smaller run, no sibling is the odd one."""


class TreeNode(Struct, frozen=True):
    """A node of a tree; parents come before their children, siblings in order."""

    name: str
    """Its name among its siblings: `3` or `conv1`."""
    parent: int | None
    key: Hashable
    """Siblings fold only if their keys and their subtrees are equal."""
    kind: Hashable = None
    """A run may have gaps only where the siblings between its members are of the same kind."""


class FoldedRow(Struct, frozen=True):
    """A row of the folded tree; parent rows come before their children."""

    members: tuple[int, ...]
    """The nodes it represents: its run in every copy of the rows above it, in tree order."""
    run: int
    """Number of siblings folded into the row; 1 if it is not folded."""
    depth: int
    parent: int | None
    gaps: bool = False
    """Whether others stand between the siblings of the row."""
    odd_beside: int | None = None
    """If most of its numbered siblings are equal and it differs from them, the first of these nodes."""


def fold(nodes: Sequence[TreeNode], *, runs: bool = True, gaps: bool = False) -> list[FoldedRow]:
    """The rows of the folded tree, depth first.

    Args:
        nodes: The tree, parents first.
        runs: Fold runs of equal siblings; otherwise every node has its own row.
        gaps: Also fold equal siblings if others of the same kind stand between them.
    """
    below = children(nodes)
    subtrees = _subtree_numbers(nodes, below)
    roots = [index for index, node in enumerate(nodes) if node.parent is None]
    rows: list[FoldedRow] = []
    stack = [FoldedRow((root,), 1, 0, None) for root in reversed(roots)]
    while stack:
        row = stack.pop()
        here = len(rows)
        rows.append(row)
        shown = [(nodes[child], subtrees[child]) for child in below[row.members[0]]]
        for places, odd_beside in reversed(list(_runs(shown, gaps) if runs else _alone(len(shown)))):
            inner = tuple(below[member][place] for member in row.members for place in places)
            beside = None if odd_beside is None else below[row.members[0]][odd_beside]
            apart = places[-1] - places[0] >= len(places)
            stack.append(FoldedRow(inner, len(places), row.depth + 1, here, apart, beside))
    return rows


def grouped(nodes: Sequence[TreeNode]) -> list[FoldedRow]:
    """All nodes depth first; a run of equal siblings, also with gaps, has a row of its own above theirs."""
    below = children(nodes)
    subtrees = _subtree_numbers(nodes, below)
    rows: list[FoldedRow] = []
    stack = [FoldedRow((index,), 1, 0, None) for index in reversed(range(len(nodes))) if nodes[index].parent is None]
    while stack:
        row = stack.pop()
        here, depth = len(rows), row.depth + 1
        rows.append(row)
        if row.run > 1:
            stack += [FoldedRow((member,), 1, depth, here) for member in reversed(row.members)]
            continue
        inner = below[row.members[0]]
        for places, odd_beside in reversed(list(_runs([(nodes[child], subtrees[child]) for child in inner], True))):
            beside = None if odd_beside is None else inner[odd_beside]
            members = tuple(inner[place] for place in places)
            apart = places[-1] - places[0] >= len(places)
            stack.append(FoldedRow(members, len(places), depth, here, apart, beside))
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


def row_name(nodes: Sequence[TreeNode], row: FoldedRow, separator: str = ", ") -> str:
    """The name of a row among its siblings: `conv1`, or `0–6, 8–31` for a run."""
    matched = [_NUMBERED.fullmatch(nodes[member].name) for member in row.members[: row.run]]
    numbered = [each for each in matched if each is not None]
    if row.run == 1 or not numbered:
        return nodes[row.members[0]].name
    return numbered[0]["stem"] + ranges_text((int(each["number"]) for each in numbered), separator)


def _subtree_numbers(nodes: Sequence[TreeNode], below: list[list[int]]) -> list[int]:
    """A number for each node; nodes share it if their keys and their subtrees with all names are equal."""
    numbers: dict[Hashable, int] = {}
    result = [0] * len(nodes)
    for index in range(len(nodes) - 1, -1, -1):
        inner = tuple((nodes[child].name, result[child]) for child in below[index])
        result[index] = numbers.setdefault((nodes[index].key, inner), len(numbers))
    return result


_Run = tuple[list[int], int | None]
"""The places of siblings that share a row, and the first place of the larger run beside them, if there is one."""


def _alone(count: int) -> list[_Run]:
    return [([place], None) for place in range(count)]


def _runs(siblings: Sequence[tuple[TreeNode, int]], gaps: bool) -> Iterator[_Run]:
    """The runs of siblings, given with the numbers of their subtrees, in order of their first members."""
    start = 0
    for end in range(1, len(siblings) + 1):
        if end < len(siblings):
            (one, one_tree), (two, two_tree) = siblings[end - 1], siblings[end]
            joined = one.kind == two.kind if gaps else one_tree == two_tree
            if joined and _follows(one.name, two.name):
                continue
        yield from _equal_runs([subtree for _, subtree in siblings[start:end]], start)
        start = end


def _equal_runs(subtrees: list[int], start: int) -> Iterator[_Run]:
    """The places, from `start`, of each subtree; the largest run is beside the others if it is the majority."""
    places: dict[int, list[int]] = {}
    for place, subtree in enumerate(subtrees, start):
        places.setdefault(subtree, []).append(place)
    largest = max(places.values(), key=len)
    is_majority = len(largest) >= _MIN_RUN and 2 * len(largest) > len(subtrees)
    for run in places.values():
        yield run, largest[0] if is_majority and run is not largest else None


def _follows(before: str, after: str) -> bool:
    one, two = _NUMBERED.fullmatch(before), _NUMBERED.fullmatch(after)
    if one is None or two is None or one["stem"] != two["stem"]:
        return False
    return int(two["number"]) == int(one["number"]) + 1
