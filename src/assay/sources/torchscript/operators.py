"""Finds the operator that a path such as `torch.add` or `ops.prim.device` means for given arguments."""

from __future__ import annotations

from typing import Any

import torch

from assay.messages import one_line
from assay.sources.torchscript import prim, quantized, scalars
from assay.sources.torchscript.fused import FUSED
from assay.sources.torchscript.refusal import leaves, refuse
from assay.sources.torchscript.scalars import Operator
from assay.sources.torchscript.tensor_ops import TensorOps
from assay.sources.torchscript.values import Opaque

_ITEMS_PER_STEP = 4
"""Items of containers and strings that count as a step of the pass."""
_SHORT = frozenset(
    {"append", "len", "pop", "get", "select", "size", "__getitem__", "_set_item", "__is__", "__isnot__"}
)
"""Operators whose work does not grow with their arguments."""

_ENTER = "_record_function_enter_new"
_PROFILER = frozenset({_ENTER, "_record_function_exit", "_call_end_callbacks_on_jit_fut"})
"""Operators that only name a range of a profile."""


def apply(ops: TensorOps, path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of an operator: of one on plain values if the arguments are, else of one on tensors."""
    space, _, name = path.removeprefix("ops.").partition(".")
    for each in args:
        if isinstance(each, Opaque):
            refuse(each.what)
    if name not in _SHORT:
        _spend(ops, args)
    if space == "prim" and name in prim.PRIM:
        return prim.PRIM[name](ops, *args, **kwargs)
    if space == "profiler" and name in _PROFILER:
        return True if name == _ENTER else args[-1]
    if space == "quantized":
        return quantized.run(ops, name, args, kwargs)
    if space not in ("torch", "aten"):
        refuse(f"the operator {one_line(space)}::{one_line(name)}, which is not one of those that are interpreted")
    if name in scalars.ALWAYS:
        return scalars.ALWAYS[name](*args, **kwargs)
    if args and isinstance(args[0], (list, tuple, dict, str)) and name in scalars.CONTAINERS:
        return scalars.CONTAINERS[name](*args, **kwargs)
    if name in scalars.NUMBERS and not any(isinstance(each, (torch.Tensor, str)) for each in args):
        return scalars.NUMBERS[name](*args, **kwargs)
    if name in FUSED:
        return FUSED[name](ops, *args, **kwargs)
    return ops.run(name, args, kwargs)


def apply_bare(ops: TensorOps, function: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a function that is called by a bare name."""
    _spend(ops, args)
    return function(ops, *args, **kwargs)


def _spend(ops: TensorOps, args: tuple[Any, ...]) -> None:
    ops.budget.spend(sum(_length(each) for each in args) // _ITEMS_PER_STEP)


def _length(value: Any) -> int:
    """The items of a container, or the characters of a string."""
    if isinstance(value, str):
        return len(value)
    return leaves(value) if isinstance(value, (list, tuple, dict)) else 0
