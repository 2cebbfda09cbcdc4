"""Costs of custom ops, registered by the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from assay.analysis.cost.categories import CUSTOM
from assay.analysis.cost.registry import register, target_key
from assay.analysis.cost.work import FLOPS_PER_MAC, Work
from assay.document.rows import OpKind
from assay.errors import UsageError

UserRule = Callable[[OpKind], "int | Mapping[str, int]"]
AnyRule = TypeVar("AnyRule", bound=UserRule)

COST_KEYS = ("macs", "matrix_flops", "pointwise_flops", "needed_flops")


def register_cost(target: object, *, category: str = CUSTOM, override: bool = False) -> Callable[[AnyRule], AnyRule]:
    """A decorator that registers a function as the cost formula of a custom op.

    The function takes the `OpKind` and returns its matrix FLOPs as an int, or a mapping with any of `macs`,
    `matrix_flops`, `pointwise_flops` and `needed_flops`.

    Args:
        target: The op: `"mylib::op"`, `"mylib.op"`, `"mylib.op.default"` or `torch.ops.mylib.op` itself.
        category: The category to list the op under.
        override: Replace an existing formula of the op.

    Returns:
        The decorator; it returns the function unchanged.

    Raises:
        ValueError: `target` is not an op name, or the op already has a formula and `override` is false.
        UsageError: What is decorated is not a function. Also raised when costs are counted, if the function returns
            anything else.
    """
    key = target_key(target)

    def add(rule: AnyRule) -> AnyRule:
        if not callable(rule):
            raise UsageError(f"the cost of {key} must be a function of an OpKind, got {rule!r}")
        register(key, category=category, override=override)(lambda kind: _work(rule(kind), key))
        return rule

    return add


def _work(cost: object, target: str) -> Work:
    values = {"matrix_flops": cost} if isinstance(cost, int) else cost
    if not isinstance(values, Mapping) or not set(values) <= set(COST_KEYS):
        keys = ", ".join(COST_KEYS)
        raise UsageError(f"invalid cost {cost!r} of {target}: return FLOPs as an int or a mapping with any of {keys}")
    if any(value is not None and (not isinstance(value, int) or value < 0) for value in values.values()):
        raise UsageError(f"invalid cost {cost!r} of {target}: return integers of 0 or more")
    macs, matrix = values.get("macs"), values.get("matrix_flops")
    if macs is None:
        macs = int(matrix or 0) // FLOPS_PER_MAC
    return Work(macs, int(values.get("pointwise_flops", 0)), matrix, values.get("needed_flops"))
