"""How a formula reads a kind: operands by name, sizes, attributes, facts."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, log2, prod
from typing import Any

from assay.analysis.cost.work import Uncountable
from assay.document.rows import OpKind, TensorType


def numel(tensor: TensorType) -> int:
    """Elements of a tensor by its shape; uncountable where a dimension is ragged (-1)."""
    if is_ragged(tensor):
        raise Uncountable("a ragged tensor: its lengths are only in the data")
    return prod(tensor.shape)


def is_ragged(tensor: TensorType) -> bool:
    """Whether the length of a dimension differs from row to row; such a dimension is -1."""
    return any(size < 0 for size in tensor.shape)


def stored(tensor: TensorType) -> int:
    """Elements it really holds: those stored, where it is sparse."""
    return numel(tensor) if tensor.nnz is None else tensor.nnz


def is_sparse(tensor: TensorType) -> bool:
    """Whether its layout leaves elements out."""
    return tensor.layout.startswith("sparse")


def optional(kind: OpKind, *names: str) -> TensorType | None:
    """The first operand with one of the names, or None."""
    for name in names:
        for operand in kind.inputs:
            if operand.name == name:
                return operand.type
    return None


def operand(kind: OpKind, *names: str) -> TensorType:
    """The first operand with one of the names; uncountable without it."""
    found = optional(kind, *names)
    if found is None:
        raise Uncountable(f"{kind.target} has no tensor named {' or '.join(names)}")
    return found


def items(kind: OpKind, name: str) -> list[TensorType]:
    """The tensors of a list argument: `tensors[0]`, `tensors[1]`, ..."""
    return [one.type for one in kind.inputs if one.name == name or one.name.startswith(f"{name}[")]


def first(kind: OpKind) -> TensorType:
    """The first tensor given."""
    if not kind.inputs:
        raise Uncountable(f"{kind.target} was given no tensor")
    return kind.inputs[0].type


def result(kind: OpKind) -> TensorType:
    """The first tensor made, or written in place."""
    made = _made(kind)
    if not made:
        raise Uncountable(f"{kind.target} made no tensor")
    return made[0]


def result_numel(kind: OpKind) -> int:
    """Elements of the first tensor made."""
    return numel(result(kind))


def all_results_numel(kind: OpKind) -> int:
    """Elements of every tensor made or written in place."""
    return total(_made(kind))


def total(tensors: Iterable[TensorType]) -> int:
    """Elements of several tensors together."""
    return sum(numel(tensor) for tensor in tensors)


def _made(kind: OpKind) -> list[TensorType]:
    outputs = [one.type for one in kind.outputs]
    return outputs or [one.type for one in kind.inputs if one.written]


def rows(tensor: TensorType) -> int:
    """How many vectors lie along its last dimension: `rows` of 8 x 16 x 4 is 128."""
    return numel(tensor) // tensor.shape[-1]


def bias_adds(kind: OpKind, *names: str) -> int:
    """Additions to the result, one an element where an operand with one of the names is given."""
    return result_numel(kind) if optional(kind, *names) else 0


def attribute(kind: OpKind, name: str, default: Any = None) -> Any:
    """An attribute, or the default where it is absent or None."""
    value = kind.attributes.get(name)
    return default if value is None else value


def mask(kind: OpKind, name: str = "output_mask") -> tuple[bool, ...]:
    """Which gradients a backward makes; uncountable where it does not say."""
    value = attribute(kind, name)
    if value is None:
        raise Uncountable(f"{kind.target} does not say which gradients it makes")
    return tuple(bool(one) for one in value)


def number(kind: OpKind, name: str, default: float) -> float:
    """A scalar attribute as a float: `inf` may be written as text."""
    return float(attribute(kind, name, default))


def spread(value: Any, rank: int) -> list[int]:
    """An `int` or short list widened to one value a dimension: `spread(3, 2) == [3, 3]`."""
    values = [int(one) for one in value] if isinstance(value, (list, tuple)) else [int(value)]
    return values * rank if len(values) == 1 else values


def levels(length: int) -> int:
    """Comparisons a binary search among `length` takes: `levels(8) == 3`."""
    return ceil(log2(length)) if length > 1 else 0
