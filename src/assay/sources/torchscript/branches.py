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


def likelier_branch(node: ast.If, *, in_loop: bool) -> bool:
    """Whether the condition is assumed to be true, as it is of the live model: not if that raises or does nothing.

    In a loop, branches that do nothing may end it: there, the condition is true.
    """
    raises = [_raises(branch) for branch in (node.body, node.orelse)]
    if raises[0] != raises[1]:
        return raises[1]
    return in_loop or _does_work(node.body) or not _does_work(node.orelse)


def _raises(branch: list[ast.stmt]) -> bool:
    """Whether the branch certainly raises an error."""
    return any(isinstance(each, ast.Expr) and "RaiseException" in ast.unparse(each.value) for each in branch)


def _does_work(branch: list[ast.stmt]) -> bool:
    """Whether a branch calls anything but what prepares or raises an error."""
    calls = (node for each in branch for node in ast.walk(each) if isinstance(node, ast.Call))
    return any(ast.unparse(call.func) not in _NO_WORK for call in calls)
