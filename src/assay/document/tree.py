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
    below = children(modules)
    order: list[int] = []
    stack = [index for index, module in enumerate(modules) if module.parent is None][::-1]
    while stack:
        index = stack.pop()
        order.append(index)
        stack.extend(reversed(below[index]))
    return order
