"""All attributes of a module, or of an object that holds modules, read without running any of their code."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from assay.document.inspection import Attribute, TensorFacts
from assay.forward_stats.call_list import ATTRIBUTE
from assay.inspection.writing import stored, type_name, written
from assay.recorder.inventory import dtype_name, size_in_bytes, sizes

_FRESH = nn.Module().__dict__
"""What every module has; shown only where it is no longer as it was at first."""
_SHOWN_APART = ("_parameters", "_buffers", "_modules", ATTRIBUTE)
_METHODS = (types.FunctionType, types.BuiltinFunctionType, classmethod, staticmethod, type)


def of_module(module: nn.Module) -> list[Attribute]:
    """Parameters, buffers, submodules and every other attribute, in that order."""
    groups = (("parameter", module._parameters), ("buffer", module._buffers), ("module", module._modules))
    own = [_attribute(name, kind, value) for kind, values in groups for name, value in values.items()]
    shown = ((name, value) for name, value in module.__dict__.items() if _is_shown(name, value))
    return [*own, *(_attribute(name, "value", value) for name, value in shown), *_of_class(type(module), nn.Module)]


def of_holder(holder: object) -> list[Attribute]:
    """What an object that is no module holds."""
    values = stored(holder).items()
    own = [
        _attribute(str(name), "module" if isinstance(value, nn.Module) else "value", value) for name, value in values
    ]
    return [*own, *_of_class(type(holder), object)]


def facts(tensor: torch.Tensor) -> TensorFacts:
    """A tensor from outside."""
    known = not nn.parameter.is_lazy(tensor)
    return TensorFacts(
        shape=sizes(tensor) if known else (),
        dtype=dtype_name(tensor.dtype),
        device=str(tensor.device),
        bytes=size_in_bytes(tensor) if known else None,
        requires_grad=tensor.requires_grad,
        has_grad=tensor.is_leaf and tensor.grad is not None,
    )


def _attribute(name: str, kind: str, value: Any) -> Attribute:
    tensor = facts(value) if isinstance(value, torch.Tensor) else None
    return Attribute(name, kind, type_name(value), written(value) if tensor is None else "", tensor)


def _is_shown(name: str, value: Any) -> bool:
    if name in _SHOWN_APART:
        return False
    if name not in _FRESH or name == "training":
        return True
    return bool(value) if isinstance(value, (dict, set)) else value is not _FRESH[name]


def _of_class(cls: type, end: type) -> Iterator[Attribute]:
    """What the classes below `end` define besides methods; properties are named and not run."""
    seen: set[str] = set()
    for owner in cls.__mro__:
        if owner is end:
            return
        for name, value in owner.__dict__.items():
            if name.startswith("__") or name in seen or isinstance(value, _METHODS):
                continue
            seen.add(name)
            if hasattr(type(value), "__get__"):
                yield Attribute(name, "value", type_name(value), "not run")
            else:
                yield _attribute(name, "value", value)
