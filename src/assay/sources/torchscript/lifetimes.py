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
        names = _Names()
        names.read_all(function.body)
        if names.blocks * len(names.different) > _MOST_WORK:
            return
        arguments = {each.arg for each in function.args.args}
        own = names.different | arguments
        unused = arguments - _of_block(function.body, set(), own, names, self)
        first = function.body[0]
        self.after[first] = (*self.after[first], *sorted(unused))


class _Names:
    """The variables that each statement of a function uses, with those of the statements in it."""

    def __init__(self) -> None:
        self.loaded: dict[ast.stmt, set[str]] = {}
        """Those that it reads."""
        self.bound: dict[ast.stmt, set[str]] = {}
        """Those that it may set."""
        self.first: dict[ast.stmt, set[str]] = {}
        """Those that it reads, except where it has set them before in any case."""
        self.different: set[str] = set()
        """All names of the function."""
        self.blocks = 0
        """The number of branches and loops."""

    def read_all(self, statements: Iterable[ast.stmt]) -> set[str]:
        """Read the statements of a block; the variables that it reads before it has set them in any case."""
        used: set[str] = set()
        defined: set[str] = set()
        for statement in statements:
            used |= self._read(statement) - defined
            if not isinstance(statement, _COMPOUND):
                defined |= self.bound[statement]
        return used

    def _read(self, statement: ast.stmt) -> set[str]:
        loaded, bound = self.loaded[statement], self.bound[statement] = set[str](), set[str]()
        inner: set[str] = set()
        for part in _own_parts(statement):
            for node in ast.walk(part):
                if isinstance(node, ast.Name):
                    (bound if isinstance(node.ctx, ast.Store) else loaded).add(node.id)
        head = set(loaded)
        if isinstance(statement, _COMPOUND):
            self.blocks += 1
            blocks = (statement.body, getattr(statement, "orelse", []))
            inner = set[str]().union(*map(self.read_all, blocks))
            for each in (*blocks[0], *blocks[1]):
                loaded |= self.loaded[each]
                bound |= self.bound[each]
        self.different |= loaded | bound
        self.first[statement] = head | inner
        return self.first[statement]


_COMPOUND = (ast.For, ast.While, ast.If, ast.With)


def _own_parts(statement: ast.stmt) -> Iterable[ast.AST]:
    """What belongs to a statement itself: of a branch or loop, all but the statements in it."""
    if isinstance(statement, _COMPOUND):
        return (child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt))
    return (statement,)


def _of_block(statements: list[ast.stmt], live: set[str], own: set[str], names: _Names, found: Expiry) -> set[str]:
    """Add the statements of a block, after which `live` are used; the variables that are used before they are set.

    Only variables in `own` are deleted in it: like TorchScript, a branch or loop keeps those from outside until its
    end. `live` becomes the result.
    """
    for statement in reversed(statements):
        loaded, bound = names.loaded[statement], names.bound[statement]
        ending = ((loaded | bound) - live) & own
        found.after[statement] = tuple(sorted(ending))
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr, ast.Return)):
            if statement.value is not None:
                targets = [node for target in getattr(statement, "targets", []) for node in _names(target)]
                kept = {node.id for node in targets if isinstance(node.ctx, ast.Load)}
                found.last_uses.update(_last_uses(statement.value, ((ending | bound) & own) - kept))
            live -= bound
            live |= loaded
        elif isinstance(statement, (ast.For, ast.While)):
            _of_block(statement.body, live | names.first[statement], bound, names, found)
            live |= names.first[statement]
        elif isinstance(statement, (ast.If, ast.With)):
            blocks = (statement.body, getattr(statement, "orelse", []))
            used = [
                _of_block(each, set(live), set().union(*(names.bound[inner] for inner in each)), names, found)
                for each in blocks
            ]
            live |= used[0] | used[1] | names.first[statement]
        else:
            live |= loaded | bound
    return live


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
