"""All attributes of a module, or of an object that contains modules, read without running any of their code."""

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
from assay.sources.torchscript.modules import InterpretedModule

_DEFAULTS = nn.Module().__dict__
"""Attributes that every module has; listed only if they differ from a new module's."""
_LISTED_SEPARATELY = ("_parameters", "_buffers", "_modules", ATTRIBUTE)
_METHODS = (types.FunctionType, types.BuiltinFunctionType, classmethod, staticmethod, type)


def of_module(module: nn.Module) -> list[Attribute]:
    """The parameters, buffers, submodules and all other attributes, in that order."""
    groups = (("parameter", module._parameters), ("buffer", module._buffers), ("module", module._modules))
    own = [_attribute(name, kind, value) for kind, values in groups for name, value in values.items()]
    if isinstance(module, InterpretedModule):  # its class is one of Assay, not of the file
        return [*own, *(_attribute(name, "value", value) for name, value in module.script_attributes.items())]
    others = ((name, value) for name, value in module.__dict__.items() if _is_listed(name, value))
    return [*own, *(_attribute(name, "value", value) for name, value in others), *_of_class(type(module), nn.Module)]


def of_holder(holder: object) -> list[Attribute]:
    """The attributes of an object that is not a module itself."""
    values = stored(holder).items()
    own = [
        _attribute(str(name), "module" if isinstance(value, nn.Module) else "value", value) for name, value in values
    ]
    return [*own, *_of_class(type(holder), object)]


def facts(tensor: torch.Tensor) -> TensorFacts:
    """The shape, dtype, device and gradient state of a tensor, without its values."""
    is_initialized = not nn.parameter.is_lazy(tensor)
    return TensorFacts(
        shape=sizes(tensor) if is_initialized else (),
        dtype=dtype_name(tensor.dtype),
        device=str(tensor.device),
        bytes=size_in_bytes(tensor) if is_initialized else None,
        requires_grad=tensor.requires_grad,
        has_grad=tensor.is_leaf and tensor.grad is not None,
    )


def _attribute(name: str, kind: str, value: Any) -> Attribute:
    tensor = facts(value) if isinstance(value, torch.Tensor) else None
    return Attribute(name, kind, type_name(value), written(value) if tensor is None else "", tensor)


def _is_listed(name: str, value: Any) -> bool:
    if name in _LISTED_SEPARATELY:
        return False
    if name not in _DEFAULTS or name == "training":
        return True
    return bool(value) if isinstance(value, (dict, set)) else value is not _DEFAULTS[name]


def _of_class(cls: type, end: type) -> Iterator[Attribute]:
    """Class attributes of `cls` and its bases before `end`, without methods; properties are listed but not run."""
    listed: set[str] = set()
    for owner in cls.__mro__:
        if owner is end:
            return
        for name, value in owner.__dict__.items():
            if name.startswith("__") or name in listed or isinstance(value, _METHODS):
                continue
            listed.add(name)
            if hasattr(type(value), "__get__"):
                yield Attribute(name, "value", type_name(value), "not run")
            else:
                yield _attribute(name, "value", value)
