"""When the local variables of a function are used for the last time.

TorchScript gives every value a name of its own and frees it after its last use, so that memory is that of the file's
own run only if the interpreter does the same.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

UsedLater = Callable[[str], bool]


class Expiry(NamedTuple):
    """When variables are deleted."""

    after: dict[ast.stmt, tuple[str, ...]]
    """The variables that are not used after a statement."""
    last_uses: set[ast.expr]
    """The names in expressions whose variables are not used after them."""

    def add(self, function: ast.FunctionDef) -> None:
        """Add the statements of a function."""
        parameters = {each.arg for each in function.args.args}
        own = parameters | _bound(function)
        _of_block(function.body, lambda name: False, own, self)
        unused = parameters - {node.id for each in function.body for node in _names(each)}
        first = function.body[0]
        self.after[first] = (*self.after[first], *sorted(unused))


def _of_block(statements: list[ast.stmt], used_after: UsedLater, own: Collection[str], found: Expiry) -> None:
    """Add the statements of a block; only variables in `own` may be deleted in it."""
    later: set[str] = set()

    def used_later(name: str) -> bool:
        return name in later or used_after(name)

    for statement in reversed(statements):
        names = {node.id for node in _names(statement)}
        ending = {name for name in names if name in own and not used_later(name)}
        found.after[statement] = tuple(sorted(ending))
        if isinstance(statement, (ast.Assign, ast.Expr, ast.Return)) and statement.value is not None:
            found.last_uses.update(_last_uses(statement.value, ending))
        _of_inner_blocks(statement, names, used_later, found)
        later |= names


def _of_inner_blocks(statement: ast.stmt, names: set[str], used_later: UsedLater, found: Expiry) -> None:
    """Add the blocks of a branch or loop; what a loop uses, its next round uses again."""
    if isinstance(statement, (ast.For, ast.While)):
        _of_block(statement.body, lambda name: name in names or used_later(name), _bound(statement), found)
    elif isinstance(statement, (ast.If, ast.With)):
        later = frozenset(name for name in names if used_later(name))
        for block in (statement.body, getattr(statement, "orelse", [])):
            _of_block(block, later.__contains__, _bound(statement), found)


def _last_uses(expression: ast.expr, names: set[str]) -> Iterable[ast.expr]:
    """The last use of each of these names, in order of evaluation."""
    last: dict[str, ast.expr] = {}
    pending: list[ast.AST] = [expression]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name) and node.id in names:
            last[node.id] = node
        pending.extend(reversed(list(ast.iter_child_nodes(node))))
    return last.values()


def _names(statement: ast.AST) -> Iterable[ast.Name]:
    return (node for node in ast.walk(statement) if isinstance(node, ast.Name))


def _bound(statement: ast.AST) -> set[str]:
    """The names that a statement may define."""
    return {node.id for node in _names(statement) if isinstance(node.ctx, ast.Store)}
