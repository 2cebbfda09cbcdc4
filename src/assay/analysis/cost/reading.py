"""Helpers with which a formula reads a kind of op: operands by name, sizes, attributes."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, log2, prod
from typing import Any

from assay.analysis.cost.work import Uncountable
from assay.document.rows import OpKind, TensorType


def numel(tensor: TensorType) -> int:
    """The number of elements of a tensor; raises `Uncountable` if a dimension has unknown lengths (-1)."""
    if is_ragged(tensor):
        raise Uncountable("a ragged tensor: its lengths are known only at run time")
    if tensor.components is not None:
        return sum(map(prod, tensor.components))
    return prod(tensor.shape)


def is_ragged(tensor: TensorType) -> bool:
    """Whether the sizes of a dimension (-1) are unknown; a nested tensor usually has the shapes of its components."""
    return tensor.components is None and any(size < 0 for size in tensor.shape)


def stored(tensor: TensorType) -> int:
    """The number of stored elements: all elements, or `nnz` if the tensor is sparse."""
    return numel(tensor) if tensor.nnz is None else tensor.nnz


def is_sparse(tensor: TensorType) -> bool:
    """Whether the tensor has a sparse layout."""
    return tensor.layout.startswith("sparse")


def optional(kind: OpKind, *names: str) -> TensorType | None:
    """The type of the operand with the first name that occurs; None if no name does."""
    for name in names:
        for operand in kind.inputs:
            if operand.name == name:
                return operand.type
    return None


def operand(kind: OpKind, *names: str) -> TensorType:
    """The type of the operand with the first name that occurs; raises `Uncountable` if no name does."""
    tensor = optional(kind, *names)
    if tensor is None:
        raise Uncountable(f"{kind.target} has no tensor named {' or '.join(names)}")
    return tensor


def items(kind: OpKind, name: str) -> list[TensorType]:
    """The tensors of a list argument: `tensors[0]`, `tensors[1]`, ..."""
    return [one.type for one in kind.inputs if one.name == name or one.name.startswith(f"{name}[")]


def first(kind: OpKind) -> TensorType:
    """The first input."""
    if not kind.inputs:
        raise Uncountable(f"{kind.target} has no input tensor")
    return kind.inputs[0].type


def result(kind: OpKind) -> TensorType:
    """The first output, or the first input written in place."""
    results = _results(kind)
    if not results:
        raise Uncountable(f"{kind.target} has no output tensor")
    return results[0]


def result_numel(kind: OpKind) -> int:
    """The number of elements of the first output."""
    return numel(result(kind))


def all_results_numel(kind: OpKind) -> int:
    """The number of elements of all outputs, or of all inputs written in place if there are no outputs."""
    return total(_results(kind))


def total(tensors: Iterable[TensorType]) -> int:
    """The number of elements of all tensors together."""
    return sum(numel(tensor) for tensor in tensors)


def _results(kind: OpKind) -> list[TensorType]:
    outputs = [one.type for one in kind.outputs]
    return outputs or [one.type for one in kind.inputs if one.written]


def rows(tensor: TensorType) -> int:
    """The number of vectors along the last dimension: `rows` of 8 x 16 x 4 is 128."""
    return numel(tensor) // tensor.shape[-1]


def bias_adds(kind: OpKind, *names: str) -> int:
    """One addition per output element if there is an operand with one of the names, else 0."""
    return result_numel(kind) if optional(kind, *names) else 0


def attribute(kind: OpKind, name: str, default: Any = None) -> Any:
    """The value of an attribute, or the default if it is absent or None."""
    value = kind.attributes.get(name)
    return default if value is None else value


def mask(kind: OpKind, name: str = "output_mask") -> tuple[bool, ...]:
    """Which gradients a backward op computes; raises `Uncountable` if the attribute is absent."""
    value = attribute(kind, name)
    if value is None:
        raise Uncountable(f"{kind.target} has no {name}: the gradients it computes are unknown")
    return tuple(bool(one) for one in value)


def number(kind: OpKind, name: str, default: float) -> float:
    """A scalar attribute as a float; `inf` may be a string."""
    return float(attribute(kind, name, default))


def per_dimension(value: Any, rank: int) -> list[int]:
    """An `int` or a list as one value per dimension: `per_dimension(3, 2) == [3, 3]`."""
    values = [int(one) for one in value] if isinstance(value, (list, tuple)) else [int(value)]
    return values * rank if len(values) == 1 else values


def search_steps(length: int) -> int:
    """The number of comparisons of a binary search among `length` elements: `search_steps(8) == 3`."""
    return ceil(log2(length)) if length > 1 else 0
