"""Which branch is assumed if a condition depends on values that exist only with data."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_NO_WORK = ("torch.format", "ops.prim.RaiseException")
"""Calls that only prepare or raise an error."""

_assumed: ContextVar[bool] = ContextVar("assumed", default=True)


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


def likelier_branch(node: ast.If, *, in_loop: bool) -> bool:
    """Whether the condition is assumed to be true: not if that raises, leaves early, or does less work.

    In a loop, branches without any work decide whether it ends: then the condition is assumed to be false.
    """
    raises = [_raises(branch) for branch in (node.body, node.orelse)]
    if raises[0] != raises[1]:
        return raises[1]
    work = [_calls(branch) for branch in (node.body, node.orelse)]
    if work[0] != work[1]:
        return work[0] > work[1]
    return not (in_loop and work[0] == 0)


def _raises(branch: list[ast.stmt]) -> bool:
    """Whether the branch certainly raises an error."""
    return any(isinstance(each, ast.Expr) and "RaiseException" in ast.unparse(each.value) for each in branch)


def _calls(branch: list[ast.stmt]) -> int:
    """The calls in a branch that may do work; those of modules count more than those of operators."""
    calls = [node for each in branch for node in ast.walk(each) if isinstance(node, ast.Call)]
    names = [ast.unparse(call.func) for call in calls]
    return sum(10 if ").forward" in name else 1 for name in names if name not in _NO_WORK)
