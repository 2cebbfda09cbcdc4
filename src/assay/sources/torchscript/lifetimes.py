"""When the local variables of a function are used for the last time.

TorchScript frees a value after its last use, so that memory is that of the file's own run only if the interpreter
does the same.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import NamedTuple

_MOST_WORK = 20_000_000
"""Blocks of a function multiplied by its names; a detector with 1,000 branches and 3,000 names has 3 million."""


class Expiry(NamedTuple):
    """When variables are deleted."""

    after: dict[ast.stmt, tuple[str, ...]]
    """The variables that are not used after a statement."""
    last_uses: set[ast.expr]
    """The names in expressions whose variables are not used after them."""

    def add(self, function: ast.FunctionDef) -> None:
        """Add the statements of a function; nothing of a contrived one, for which that would take long."""
        nodes = list(ast.walk(function))
        blocks = sum(isinstance(node, (ast.If, ast.For, ast.While, ast.With)) for node in nodes)
        if blocks * len({node.id for node in nodes if isinstance(node, ast.Name)}) > _MOST_WORK:
            return
        own = {each.id for each in _names(function)} | {each.arg for each in function.args.args}
        unused = {each.arg for each in function.args.args} - _of_block(function.body, set(), own, self)
        first = function.body[0]
        self.after[first] = (*self.after[first], *sorted(unused))


def _of_block(statements: list[ast.stmt], live: set[str], own: set[str], found: Expiry) -> set[str]:
    """Add the statements of a block, after which `live` are used; the variables that are used before they are set.

    Only variables in `own` are deleted in it: like TorchScript, a branch or loop keeps those from outside until its
    end. `live` becomes the result.
    """
    for statement in reversed(statements):
        names = {node.id for node in _names(statement)}
        ending = (names - live) & own
        found.after[statement] = tuple(sorted(ending))
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr, ast.Return)):
            if statement.value is not None:
                targets = [node for target in getattr(statement, "targets", []) for node in _names(target)]
                kept = {node.id for node in targets if isinstance(node.ctx, ast.Load)}
                found.last_uses.update(_last_uses(statement.value, ((ending | _bound(statement)) & own) - kept))
            live -= _bound(statement)
            live |= {node.id for node in _names(statement) if isinstance(node.ctx, ast.Load)}
        elif isinstance(statement, (ast.For, ast.While)):
            _of_block(statement.body, live | _used_first([statement]), _bound(statement), found)
            live |= _used_first([statement])
        elif isinstance(statement, (ast.If, ast.With)):
            blocks = (statement.body, getattr(statement, "orelse", []))
            used = [_of_block(each, set(live), set().union(*map(_bound, each)), found) for each in blocks]
            live |= used[0] | used[1] | _used_first([statement])
        else:
            live |= names
    return live


def _used_first(statements: Iterable[ast.stmt]) -> set[str]:
    """The names that a block reads, except where it has set them before in any case."""
    used: set[str] = set()
    defined: set[str] = set()
    for statement in statements:
        if isinstance(statement, (ast.For, ast.While, ast.If, ast.With)):
            outside = [getattr(statement, field, None) for field in ("test", "iter")]
            heads = [each for each in (*outside, *getattr(statement, "items", ())) if each is not None]
            blocks = (statement.body, getattr(statement, "orelse", []))
            read = {node.id for head in heads for node in _names(head)}
            inside = set[str]().union(*map(_used_first, blocks))
            used |= (read | inside) - defined
        else:
            used |= {node.id for node in _names(statement) if isinstance(node.ctx, ast.Load)} - defined
            defined |= _bound(statement)
    return used


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
