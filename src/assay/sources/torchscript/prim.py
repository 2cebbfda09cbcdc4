"""The functions that TorchScript's code calls by a bare name, and those of its namespace `ops.prim`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from assay.sources.torchscript import scalars
from assay.sources.torchscript.refusal import MAX_ITEMS, Raised, checked_integer, exceed, refuse
from assay.sources.torchscript.tensor_ops import CPU, TensorOps, code_of
from assay.sources.torchscript.values import EnumMember

_PLAIN_TYPES: dict[str, tuple[type, ...]] = {
    "Tensor": (torch.Tensor,),
    "int": (int,),
    "float": (float,),
    "bool": (bool,),
    "str": (str,),
    "number": (int, float, complex),
    "NoneType": (type(None),),
    "List": (list,),
    "Dict": (dict,),
    "Tuple": (tuple,),
    "list": (list,),
    "dict": (dict,),
    "tuple": (tuple,),
}
_SCALAR_TYPES: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "float": float,
    "bool": bool,
    "number": lambda value: value,
}


def _raise(ops: TensorOps, message: Any = "", *rest: Any) -> None:
    raise Raised(scalars.text_of(message))


def as_type(ops: TensorOps, name: str, value: Any) -> Any:
    """`value` annotated with a type: a tensor annotated as a number is read."""
    if not isinstance(value, torch.Tensor):
        return value
    if name in _SCALAR_TYPES:
        return _SCALAR_TYPES[name](ops.item(value))
    return as_list(ops, value) if name.startswith("List") else value


def as_list(ops: TensorOps, tensor: torch.Tensor, *_: Any) -> Any:
    """The known values of a tensor as nested lists."""
    if tensor.is_meta:
        refuse("a list of values that exist only with data")
    if tensor.numel() > MAX_ITEMS:
        exceed(f"a list of more than {MAX_ITEMS:,} values")
    return tensor.tolist()


def is_instance(value: Any, names: list[str]) -> bool:
    """Whether `value` has one of the types; only the outermost part of a type is compared."""
    for name in names:
        outer = name.partition("[")[0]
        if outer == "Optional" and (value is None or is_instance(value, [name[len("Optional[") : -1]])):
            return True
        kinds = _PLAIN_TYPES.get(outer)
        if kinds is None and outer != "Optional":
            refuse(f"isinstance with the type {name}")
        if kinds and isinstance(value, kinds) and not (outer == "int" and isinstance(value, bool)):
            return True
    return False


def _to_integer(ops: TensorOps, value: Any) -> int:
    return checked_integer(int(ops.item(value) if isinstance(value, torch.Tensor) else value))


def _to_float(ops: TensorOps, value: Any) -> float:
    return float(ops.item(value) if isinstance(value, torch.Tensor) else value)


def _to_bool(ops: TensorOps, value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return bool(ops.item(value)) if ops.is_size(value) else bool(value)
    return bool(value)


def _complex(ops: TensorOps, *values: Any) -> complex:
    return complex(*(ops.item(value) if isinstance(value, torch.Tensor) else value for value in values))


BARE: dict[str, Callable[..., Any]] = {
    "int": _to_integer,
    "float": _to_float,
    "bool": _to_bool,
    "complex": _complex,
    "str": lambda ops, value: scalars.text_of(value),
    "range": lambda ops, *bounds: range(*bounds),
    "print": lambda ops, *values: None,
    "sorted": lambda ops, items: sorted(items),
    "len": lambda ops, items: ops.run("len", (items,), {}) if isinstance(items, torch.Tensor) else len(items),
    "uninitialized": lambda ops, *_: None,
}
"""Functions by name; those that take types are in the interpreter."""


def _shape(ops: TensorOps, tensor: Any) -> list[int]:
    return list(tensor.shape)


def _kind(ops: TensorOps, value: Any) -> Any:
    return value.type if isinstance(value, torch.device) else refuse("the type of a value that is not a device")


def _of_numbers(name: str) -> Callable[..., Any]:
    def compute(ops: TensorOps, *args: Any) -> Any:
        return (scalars.CONTAINERS if isinstance(args[0], list) else scalars.NUMBERS)[name](*args)

    return compute


PRIM: dict[str, Callable[..., Any]] = {
    "NumToTensor": lambda ops, number: ops.size_tensor(number),
    "RaiseException": _raise,
    "dtype": lambda ops, tensor: code_of(tensor.dtype),
    "device": lambda ops, tensor: CPU,
    "layout": lambda ops, tensor: 0 if tensor.layout is torch.strided else refuse("the layout of a sparse tensor"),
    "type": _kind,
    "index": lambda ops, device: device.index,
    "shape": _shape,
    "data": lambda ops, tensor: tensor,
    "grad": lambda ops, tensor: None,
    "requires_grad": lambda ops, tensor: False,
    "is_cuda": lambda ops, tensor: False,
    "is_cpu": lambda ops, tensor: True,
    "is_meta": lambda ops, tensor: False,
    "is_mkldnn": lambda ops, tensor: False,
    "is_mps": lambda ops, tensor: False,
    "is_nested": lambda ops, tensor: False,
    "is_quantized": lambda ops, tensor: False,
    "is_sparse": lambda ops, tensor: False,
    "is_vulkan": lambda ops, tensor: False,
    "is_xla": lambda ops, tensor: False,
    "itemsize": lambda ops, tensor: tensor.element_size(),
    "nbytes": lambda ops, tensor: tensor.numel() * tensor.element_size(),
    "min": _of_numbers("min"),
    "max": _of_numbers("max"),
    "abs": lambda ops, value: abs(value),
    "rangelist": lambda ops, count: list(range(count)) if count <= 10_000 else refuse("a long list of numbers"),
    "unchecked_unwrap_optional": lambda ops, value: value,
    "AutogradZero": lambda ops: None,
    "name": lambda ops, member: member.name if isinstance(member, EnumMember) else refuse("the name of a value"),
    "value": lambda ops, member: member.value if isinstance(member, EnumMember) else refuse("the value of a value"),
    "EnumName": lambda ops, member: member.name,
    "EnumValue": lambda ops, member: member.value,
    "TupleIndex": lambda ops, items, index: items[index],
    "tolist": as_list,
    "device_type": _kind,
}
"""Functions of `ops.prim`."""
