"""The module tree of a document as an index: children, depth, and sums over subtrees."""

from __future__ import annotations

from collections.abc import Sequence

from assay.document.rows import Module

ROOT = "(root)"


def shown(path: str) -> str:
    """A module path as people see it: the root has a name too."""
    return path or ROOT


def children(modules: Sequence[Module]) -> list[list[int]]:
    """For each module the indices of its children, in the model's order."""
    result: list[list[int]] = [[] for _ in modules]
    for index, module in enumerate(modules):
        if module.parent is not None:
            result[module.parent].append(index)
    return result


def depths(modules: Sequence[Module]) -> list[int]:
    """How deep each module lies; the root is 0. Parents come before their children."""
    result: list[int] = []
    for module in modules:
        result.append(0 if module.parent is None else result[module.parent] + 1)
    return result


def preorder(modules: Sequence[Module]) -> list[int]:
    """The indices in the order a person reads a tree."""
    return reading_order([-1 if module.parent is None else module.parent for module in modules])


def reading_order(parents: Sequence[int]) -> list[int]:
    """The rows of a tree in the order a person reads it, whatever order they come in; a root's parent is -1."""
    below: dict[int, list[int]] = {}
    for row, above in enumerate(parents):
        below.setdefault(above, []).append(row)
    order: list[int] = []
    stack = below.get(-1, [])[::-1]
    while stack:
        row = stack.pop()
        order.append(row)
        stack.extend(reversed(below.get(row, ())))
    return order
