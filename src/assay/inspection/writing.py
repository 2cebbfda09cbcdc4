"""Any value as one line of text, without running code of its class: no `__repr__`, no property."""

from __future__ import annotations

import enum
import types
from collections.abc import Callable
from itertools import islice
from typing import Any

import torch
from torch import nn

from assay.sources.holders import attributes_of

MAX_LENGTH = 200
"""The longest line, in characters."""
_MAX_ITEMS = 20
_MAX_DEPTH = 3
_MAX_BITS = 512
"""Larger integers are not written out; Python raises an error above a few thousand digits."""

_SAFE: tuple[Any, ...] = (bool, int, float, complex, str, bytes, bytearray, range)
_TEXTS: tuple[Any, ...] = (str, bytes, bytearray)
_SAFE_TORCH = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_CODE = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_BRACKETS: dict[Any, tuple[str, str, Callable[[Any], Any]]] = {
    list: ("[", "]", list.__iter__),
    tuple: ("(", ")", tuple.__iter__),
    set: ("{", "}", set.__iter__),
    frozenset: ("{", "}", frozenset.__iter__),
}


def written(value: Any) -> str:
    """The value on one line, shortened to `MAX_LENGTH` characters."""
    text = _text(value, 0)
    return text if len(text) <= MAX_LENGTH else text[: MAX_LENGTH - 1] + "…"


def type_name(value: Any) -> str:
    """The name of the value's class: `Parameter`, `int`, `Linear`."""
    return type.__getattribute__(type(value), "__name__")  # type: ignore[no-any-return]


def _text(value: Any, depth: int) -> str:
    if value is None or value is Ellipsis or value is NotImplemented:
        return repr(value)
    if isinstance(value, int) and int.bit_length(value) > _MAX_BITS:
        return f"an integer of {int.bit_length(value)} bits"
    if isinstance(value, enum.Enum):
        return f"{type_name(value)}.{value._name_}"
    for cls in _SAFE:
        if isinstance(value, cls):
            # The base class writes it, because a subclass may override __repr__.
            return str(cls.__repr__(_cut(value)))
    if isinstance(value, _SAFE_TORCH):
        return str(value)
    if isinstance(value, torch.Tensor):
        return type_name(value)
    if isinstance(value, type):
        return f"class {type.__getattribute__(value, '__qualname__')}"
    if isinstance(value, _CODE):
        return f"function {value.__qualname__}"
    if isinstance(value, nn.Module):
        return type_name(value)
    return "…" if depth == _MAX_DEPTH else _structured(value, depth + 1)


def _structured(value: Any, depth: int) -> str:
    for cls, (opening, closing, items) in _BRACKETS.items():
        if isinstance(value, cls):
            contents = _joined((_text(item, depth) for item in _first(items(value))), cls.__len__(value))
            return f"{opening}{contents}{closing}"
    if isinstance(value, dict):
        pairs = _first(dict.items(value).__iter__())
        return "{" + _joined((f"{_text(k, depth)}: {_text(v, depth)}" for k, v in pairs), dict.__len__(value)) + "}"
    fields = stored(value)
    pairs = _first(iter(list(fields.items())))
    return f"{type_name(value)}({_joined((f'{name}={_text(item, depth)}' for name, item in pairs), len(fields))})"


def stored(value: object) -> dict[str, Any]:
    """The object's `__dict__`; empty if it has none."""
    return attributes_of(value) or {}


def _cut(value: Any) -> Any:
    """A text shortened to `MAX_LENGTH` characters; other values unchanged."""
    for cls in _TEXTS:
        if isinstance(value, cls):
            return cls.__getitem__(value, slice(MAX_LENGTH))
    return value


def _first(items: Any) -> list[Any]:
    return list(islice(items, _MAX_ITEMS))


def _joined(texts: Any, count: int) -> str:
    more = [f"… {count - _MAX_ITEMS} more"] if count > _MAX_ITEMS else []
    return ", ".join([*texts, *more])
