"""When the local variables of a function are used for the last time.

TorchScript gives every value a name of its own and frees it after its last use, so that memory is that of the model's
own code only if the interpreter does the same.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import NamedTuple


class Expiry(NamedTuple):
    """When variables are deleted."""

    after: dict[ast.stmt, tuple[str, ...]]
    """The variables that are not used after a statement."""
    last_uses: set[ast.expr]
    """The names in expressions whose variables are not used after them."""

    def add(self, function: ast.FunctionDef) -> None:
        """Add the statements of a function."""
        _of_block(function.body, frozenset(), {each.arg for each in function.args.args}, self)


def _of_block(statements: list[ast.stmt], after: frozenset[str], defined: set[str], found: Expiry) -> None:
    """Add the statements of a block; `after` are names used after it, `defined` those that may be deleted in it."""
    used_later: list[frozenset[str]] = [after]
    for statement in reversed(statements[1:]):
        used_later.append(used_later[-1] | _names(statement))
    present = set(defined)
    for statement, later in zip(statements, reversed(used_later), strict=True):
        inside = later | _names(statement) if isinstance(statement, (ast.For, ast.While)) else later
        for block in (getattr(statement, "body", None), getattr(statement, "orelse", None)):
            if block and not isinstance(statement, ast.FunctionDef):
                _of_block(block, inside, set(), found)
        present |= _bound(statement)
        found.after[statement] = tuple(sorted(present - later))
        if isinstance(statement, (ast.Assign, ast.Expr, ast.Return)) and statement.value is not None:
            found.last_uses.update(_last_uses(statement.value, present - later))
        present &= later


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


def _names(statement: ast.AST) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(statement) if isinstance(node, ast.Name))


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement may define."""
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
