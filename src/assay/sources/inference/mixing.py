"""Combining meta tensors with real ones, so that ids and lengths keep their values in a trial."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch.utils.flop_counter import flop_registry

_LARGEST = 1 << 22
"""Tensors that code creates stay real up to this number of elements."""
_RANDOM = ("rand", "normal", "bernoulli", "empty", "multinomial")
"""Parts of the names of factories whose values are arbitrary."""
_aten = torch.ops.aten
_INDEXED = (_aten.index.Tensor, _aten.index_put.default, _aten.index_put_.default)
_SCATTERED = (_aten.masked_scatter.default, _aten.masked_scatter_.default, *_INDEXED[1:])

_GROUPED = getattr(getattr(_aten, "_grouped_mm", None), "default", None)
"""The product of experts; its meta kernel accepts only bfloat16, unlike that of the CPU."""


class Mixing(TorchDispatchMode):  # type: ignore[misc]  # torch is not read by the type checker
    """A mode in which an op that gets one meta tensor gets all its tensors on the meta device.

    Integers and masks that do not depend on meta tensors stay real. If Python reads the value of a meta scalar, it
    gets a made-up one: True or 1, because masks are mostly true.
    """

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0
        self.rows: list[int] = []
        """Numbers of embeddings written into others, as those of images into those of a text."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        tensors = [*_tensors(args), *_tensors(kwargs.values())]
        if any(tensor.is_meta for tensor in tensors):
            if func is _aten._local_scalar_dense.default:
                return _made_up(args[0].dtype)
            if func in _SCATTERED:
                self.rows += _rows(*args)
            if func is _aten.embedding.default:
                _check_index(args[0].shape[0], args[1])
            args = _with_positions(args) if func in _INDEXED else args
            if not all(tensor.is_meta for tensor in tensors):
                args, kwargs = tree_map(_to_meta, (args, kwargs))
            if kwargs.get("device") is not None:
                kwargs["device"] = torch.device("meta")
        elif _on_meta(kwargs.get("device")) and _may_stay(func, args, kwargs, tensors):
            kwargs["device"] = torch.device("cpu")
        result = _grouped(*args) if func is _GROUPED and args[0].is_meta else func(*args, **kwargs)
        formula = flop_registry.get(getattr(func, "_overloadpacket", None))
        if formula is not None:
            self.flops += formula(*args, **kwargs, out_val=result)
        return result


class Reading(TorchFunctionMode):  # type: ignore[misc]
    """A mode in which `tolist()` of a meta tensor returns made-up numbers, because it is not an op."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is Tensor.tolist and args[0].is_meta:
            return torch.full(args[0].shape, _made_up(args[0].dtype), device="cpu").tolist()
        return func(*args, **(kwargs or {}))


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among the arguments of an op, which nest no deeper than lists."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _on_meta(device: Any) -> bool:
    return device is not None and torch.device(device).type == "meta"


def _may_stay(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[Tensor]) -> bool:
    """Whether the result keeps its values instead of moving to the meta device."""
    if tensors:
        return not any(tensor.is_floating_point() for tensor in tensors)
    if any(part in func._schema.name for part in _RANDOM):
        return False
    result = func(*args, **kwargs)
    return not isinstance(result, Tensor) or result.numel() <= _LARGEST


def _with_positions(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of an indexing op with the positions that real masks select instead of the masks."""
    indices: list[Any] = []
    for index in args[1]:
        is_mask = isinstance(index, Tensor) and index.dtype is torch.bool and not index.is_meta
        indices += index.nonzero(as_tuple=True) if is_mask else (index,)
    for size, index in zip(args[0].shape, indices, strict=False):
        _check_index(size, index)
    return (args[0], indices, *args[2:])


def _grouped(rows: Tensor, matrices: Tensor, *rest: Any) -> Tensor:
    """The result's shape for groups of rows, each multiplied by its own matrix."""
    return rows.new_empty((*rows.shape[:-1], matrices.shape[-1]))


def _rows(target: Tensor, where: Any, source: Tensor, *rest: Any) -> list[int]:
    """The number of embeddings in `source`, if that is what is written into `target`."""
    embeddings = target.dim() > 1 and source.dim() > 1 and source.shape[-1] == target.shape[-1]
    return [source.numel() // source.shape[-1]] if embeddings and target.is_floating_point() else []


def _check_index(size: int, index: Any) -> None:
    """Raise if a real index exceeds the dimension, which a meta kernel does not notice."""
    if isinstance(index, Tensor) and not index.is_meta and index.numel() and int(index.max()) >= size:
        raise IndexError(f"index {int(index.max())} in a dimension of size {size}")


def _to_meta(value: Any) -> Any:
    return value.to("meta") if isinstance(value, Tensor) else value


def _made_up(dtype: torch.dtype) -> bool | int | float:
    if dtype is torch.bool:
        return True
    return 1.0 if dtype.is_floating_point else 1
