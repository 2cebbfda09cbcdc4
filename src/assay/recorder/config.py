"""The configuration of a module: its constructor-level attributes, read without running any of its code.

Only `module.__dict__` is read, so properties and `__getattr__` never execute. Values are converted to plain JSON;
attributes that are not configuration (submodules, tensors, hooks, caches) are left out.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import json
import math
import types
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from assay.recorder.kept import script_attributes
from assay.sources.holders import attributes_of
from assay.sources.torchscript.modules import InterpretedModule

_INTERNAL = frozenset(nn.Module().__dict__) | {"training", "forward_stats"}

_POSITIONS = frozenset({"layer_idx", "layer_id", "layer_index", "layer_number", "block_idx", "block_index"})
"""Attributes with a module's position, left out: otherwise every layer of a decoder would be unique."""

_OPTIONAL = {"bias": "bias", "in_proj_bias": "bias", "bias_k": "add_bias_kv"}
"""Parameters that a constructor argument leaves out, with the name of the argument."""

_DEPTH = 4
"""Levels of nesting that are read; anything deeper is state or an unrelated object."""

_MAX_ITEMS = 256
"""Longer lists are tables of data and are represented by a digest."""

_OMIT = object()

_ATOMS = (bool, int, str, type(None))
_TORCH_ATOMS = (torch.dtype, torch.device, torch.layout, torch.memory_format)


def read(module: nn.Module) -> dict[str, Any]:
    """The configuration of `module` as plain JSON values, in attribute order."""
    if isinstance(module, torch.jit.ScriptModule):
        return _scripted(module)
    native = type(module).__module__.startswith("torch.")
    result: dict[str, Any] = {}
    attributes, parameters = module.__dict__, module.__dict__["_parameters"]
    if isinstance(module, InterpretedModule):
        # As of the module that torch loads, where an attribute that is None may also be a parameter or buffer.
        own, constants = module.script_attributes, module.script_class.values
        attributes = {name: own[name] for name in sorted(own) if own[name] is not None or name in constants}
        parameters = own | parameters
    for name, value in attributes.items():
        plain = _plain(value, _DEPTH) if _is_setting(name, value, native=native) else _OMIT
        if plain is not _OMIT:
            result[name] = plain
    return _with_optional(result, {name: value is not None for name, value in parameters.items()})


def _with_optional(configuration: dict[str, Any], parameters: Mapping[str, bool]) -> dict[str, Any]:
    """The configuration and which optional parameters exist; `parameters` maps registered names to that."""
    exists = {argument: parameters[name] for name, argument in _OPTIONAL.items() if name in parameters}
    return configuration | {name: present for name, present in exists.items() if name not in configuration}


def plain_value(value: Any) -> Any:
    """An op's argument as plain JSON; an object without a JSON form becomes its type's name."""
    plain = _plain(value, 8)
    return type(value).__name__ if plain is _OMIT else plain


def _is_setting(name: str, value: Any, *, native: bool) -> bool:
    """Whether an attribute of one of torch's own modules, if `native`, or of a user's can be configuration."""
    if name in _INTERNAL or name in _POSITIONS:
        return False
    return not name.startswith("_") or (not native and _is_private_setting(name, value))


def _is_private_setting(name: str, value: Any) -> bool:
    """Whether a private attribute of a user's class is a plain value and therefore configuration."""
    return not name.startswith(("__", "_is_hf")) and isinstance(value, (bool, int, float, str))


def _plain(value: Any, depth: int) -> Any:
    """`value` as plain JSON, or `_OMIT` if it is not configuration."""
    if isinstance(value, str) and not value.isascii():
        return value.encode(errors="backslashreplace").decode()  # a lone surrogate cannot be written to a file
    if type(value) in _ATOMS:
        return value
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, _ATOMS):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, complex):
        return str(value)
    if isinstance(value, _TORCH_ATOMS):
        return str(value).removeprefix("torch.")
    if isinstance(value, (torch.Tensor, nn.Module, torch.Generator)) or depth == 0:
        return _OMIT
    return _structured(value, depth - 1)


def _structured(value: Any, depth: int) -> Any:
    if isinstance(value, (list, tuple)):
        return _sequence(list(value), depth)
    if isinstance(value, (set, frozenset)):
        items = _sequence(list(value), depth)
        return sorted(items, key=repr) if isinstance(items, list) else items
    if isinstance(value, Mapping):
        items = {str(key): _plain(item, depth) for key, item in value.items()}
        kept = {key: item for key, item in items.items() if item is not _OMIT}
        return kept if kept or not items else _OMIT
    if isinstance(value, functools.partial):
        parts = {"partial": _plain(value.func, depth), "keywords": _plain(value.keywords, depth)}
        return {name: part for name, part in parts.items() if part is not _OMIT}
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)):
        return f"{value.__module__}.{value.__qualname__}" if value.__module__ else value.__qualname__
    return _settings_object(value, depth)


def _sequence(items: list[Any], depth: int) -> Any:
    plain = [_plain(item, depth) for item in items]
    if len(items) > _MAX_ITEMS:
        return f"{len(items)} items @{_digest(plain)}"
    kept = [item for item in plain if item is not _OMIT]
    return kept if kept or not items else _OMIT


def _settings_object(value: Any, depth: int) -> Any:
    """A settings object (a dataclass, a namespace, a config) as its class and a digest of its content."""
    fields = attributes_of(value)
    if fields is None or not (dataclasses.is_dataclass(type(value)) or _looks_like_settings(value)):
        return _OMIT
    content = {name: _plain(item, depth) for name, item in sorted(fields.items()) if not name.startswith("_")}
    return f"{type(value).__name__}@{_digest(content)}"


def _looks_like_settings(value: Any) -> bool:
    name = type(value).__name__.lower()
    return isinstance(value, types.SimpleNamespace) or name.endswith(
        ("config", "args", "namespace", "options", "params")
    )


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, default=lambda _: "-")
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _scripted(module: torch.jit.ScriptModule) -> dict[str, Any]:
    """The constants and plain attributes of a scripted module, by name."""
    script_type = module.__dict__.get("_concrete_type")
    if script_type is None:
        return {}
    native = module._c._type().qualified_name().startswith("__torch__.torch.")
    set_attributes = {name: value for name, value in script_attributes(module).items() if value is not None}
    settings = {
        name: _plain(value, _DEPTH)
        for name, value in sorted((set_attributes | script_type.get_constants()).items())
        if _is_setting(name, value, native=native)
    }
    own = {name for name, _ in module.named_parameters(recurse=False)}
    return _with_optional(
        {name: value for name, value in settings.items() if value is not _OMIT},
        {name: name in own for name in script_type.get_attributes()},
    )
