"""Which branch is assumed if a condition depends on values that exist only with data."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_NO_WORK = ("torch.format", "ops.prim.RaiseException")
"""Calls that only prepare or raise an error."""

_assumed: ContextVar[bool] = ContextVar("assumed", default=True)
_made: ContextVar[int] = ContextVar("made", default=0)


@contextmanager
def assumed_truth(value: bool) -> Iterator[None]:
    """Unknown conditions in the block are assumed to be `value`."""
    token = _assumed.set(value)
    try:
        yield
    finally:
        _assumed.reset(token)


def truth_to_assume() -> bool:
    """What an unknown condition is assumed to be: true, unless code that is interpreted knows better."""
    return _assumed.get()


def note_assumption() -> None:
    """Count a number or truth that was made up."""
    _made.set(_made.get() + 1)


def assumptions_made() -> int:
    """How many numbers and truths have been made up so far."""
    return _made.get()


def likelier_branch(node: ast.If) -> bool:
    """Whether the condition is assumed to be true, as it is of the live model: not if that raises or does no work.

    So a loop of known length runs to its end, although a value may end it earlier. A branch that is only taken to
    keep the condition, as that of a loop, sets a flag.
    """
    raises = [_raises(branch) for branch in (node.body, node.orelse)]
    return raises[1] if raises[0] != raises[1] else _does_work(node.body) or _is_flag(node)


def _is_flag(node: ast.If) -> bool:
    """Whether a variable is set to the truth of the condition."""
    branches = [branch[0] for branch in (node.body, node.orelse) if len(branch) == 1]
    values = [
        each.value.value for each in branches if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant)
    ]
    return values == [True, False]


def computed_tests(function: ast.FunctionDef) -> dict[ast.Assign, ast.If]:
    """The assignments that compute the condition of a later branch of the same block, with that branch."""
    found: dict[ast.Assign, ast.If] = {}
    for node in (each for each in ast.walk(function) if isinstance(each, ast.stmt)):
        for block in (getattr(node, "body", ()), getattr(node, "orelse", ())):
            assigned: dict[str, ast.Assign] = {}
            for statement in block:
                if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                    assigned[statement.targets[0].id] = statement
                elif isinstance(statement, ast.If) and isinstance(statement.test, ast.Name):
                    computed = assigned.get(statement.test.id)
                    found |= {} if computed is None else {computed: statement}
    return found


def _raises(branch: list[ast.stmt]) -> bool:
    """Whether the branch certainly raises an error."""
    return any(isinstance(each, ast.Expr) and "RaiseException" in ast.unparse(each.value) for each in branch)


def _does_work(branch: list[ast.stmt]) -> bool:
    """Whether a branch calls anything but what prepares or raises an error."""
    calls = (node for each in branch for node in ast.walk(each) if isinstance(node, ast.Call))
    return any(ast.unparse(call.func) not in _NO_WORK for call in calls)
