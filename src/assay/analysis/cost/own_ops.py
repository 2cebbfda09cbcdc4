"""The user's door: what an operation of their own costs."""

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

FIGURES = ("macs", "matrix_flops", "pointwise_flops", "needed_flops")


def register_cost(target: object, *, category: str = CUSTOM, override: bool = False) -> Callable[[AnyRule], AnyRule]:
    """A decorator for a function that computes what an operation of your own costs.

    The function gets the `OpKind` and returns its matrix FLOPs as an int, or a mapping with any of `macs`,
    `matrix_flops`, `pointwise_flops` and `needed_flops`.

    Args:
        target: The operation: `"mylib::op"`, `"mylib.op"`, `"mylib.op.default"` or `torch.ops.mylib.op` itself.
        category: The type of operation to list it under.
        override: Replace a formula that is registered already.
    """
    key = target_key(target)

    def enter(rule: AnyRule) -> AnyRule:
        register(key, category=category, override=override)(lambda kind: _work(rule(kind), key))
        return rule

    return enter


def _work(told: object, target: str) -> Work:
    figures = {"matrix_flops": told} if isinstance(told, int) else told
    if not isinstance(figures, Mapping) or not set(figures) <= set(FIGURES):
        wanted = ", ".join(FIGURES)
        raise UsageError(f"the cost of {target} came as {told!r}: return FLOPs as an int or a mapping of {wanted}")
    if any(value is not None and (not isinstance(value, int) or value < 0) for value in figures.values()):
        raise UsageError(f"the cost of {target} came as {told!r}: figures are whole numbers from 0")
    macs, matrix = figures.get("macs"), figures.get("matrix_flops")
    if macs is None:
        macs = int(matrix or 0) // FLOPS_PER_MAC
    return Work(macs, int(figures.get("pointwise_flops", 0)), matrix, figures.get("needed_flops"))
