"""The module tree of a document: children, depths and reading order; and the modules around a call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from assay.document.rows import Call, Module

ROOT = "(root)"


def path_text(path: str) -> str:
    """A module path for display: `(root)` for the empty path of the root."""
    return path or ROOT


def children(modules: Sequence[Module]) -> list[list[int]]:
    """The indices of each module's children, in model order."""
    result: list[list[int]] = [[] for _ in modules]
    for index, module in enumerate(modules):
        if module.parent is not None:
            result[module.parent].append(index)
    return result


def depths(modules: Sequence[Module]) -> list[int]:
    """The depth of each module, 0 for the root; parents must come before their children."""
    result: list[int] = []
    for module in modules:
        result.append(0 if module.parent is None else result[module.parent] + 1)
    return result


def with_ancestors(modules: Sequence[Module], indices: Iterable[int]) -> set[int]:
    """The modules with these indices, and all modules that contain them."""
    result: set[int] = set()
    for index in indices:
        at: int | None = index
        while at is not None and at not in result:
            result.add(at)
            at = modules[at].parent
    return result


def modules_around(call: int | None, calls: Sequence[Call]) -> tuple[int, ...]:
    """The modules of a call and of all calls around it, outermost first; empty for -1."""
    modules: list[int] = []
    while call is not None and call >= 0:
        modules.append(calls[call].module)
        call = calls[call].parent
    return tuple(reversed(modules))


def preorder(modules: Sequence[Module]) -> list[int]:
    """The module indices in depth-first order, parents before their children."""
    return reading_order([-1 if module.parent is None else module.parent for module in modules])


def reading_order(parents: Sequence[int]) -> list[int]:
    """Row indices in depth-first order, given each row's parent; the parent of a root is -1."""
    by_parent: dict[int, list[int]] = {}
    for row, parent in enumerate(parents):
        by_parent.setdefault(parent, []).append(row)
    order: list[int] = []
    stack = by_parent.get(-1, [])[::-1]
    while stack:
        row = stack.pop()
        order.append(row)
        stack.extend(reversed(by_parent.get(row, ())))
    return order
