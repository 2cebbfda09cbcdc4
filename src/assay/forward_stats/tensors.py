"""The tensors in a call's arguments and result, each with the expression that reaches it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch

_PLAIN = frozenset({int, float, bool, str, bytes, complex, type(None), torch.dtype, torch.device})
_MAX_DEPTH = 32
MAX_TENSORS = 1_000
"""The most tensors recorded per side of a call."""

NamedTensors = list[tuple[str, torch.Tensor]]


def of_arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NamedTensors:
    """The tensors in a call's arguments: `args[0]`, `args[1].hidden[2]`, `kwargs.mask`."""
    if len(args) == 1 and not kwargs and isinstance(args[0], torch.Tensor):
        return [("args[0]", args[0])]
    tensors: NamedTensors = []
    for index, value in enumerate(args):
        _collect(f"args[{index}]", value, tensors, 0)
    for name, value in kwargs.items():
        _collect(f"kwargs.{name}", value, tensors, 0)
    return tensors


def of_result(result: Any) -> NamedTensors:
    """The tensors in a call's result: `out`, `out[0]`, `out.logits`."""
    if isinstance(result, torch.Tensor):
        return [("out", result)]
    tensors: NamedTensors = []
    _collect("out", result, tensors, 0)
    return tensors


def _collect(path: str, value: Any, tensors: NamedTensors, depth: int) -> None:
    if isinstance(value, torch.Tensor):
        if len(tensors) < MAX_TENSORS:
            tensors.append((path, value))
        return
    if value.__class__ in _PLAIN or depth == _MAX_DEPTH:  # only containers that contain themselves are this deep
        return
    for step, item in _items(value):
        if item.__class__ not in _PLAIN and len(tensors) < MAX_TENSORS:
            _collect(path + step, item, tensors, depth + 1)


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    """The items of a container, each with its step (`[0]`, `.name`); empty for other values."""
    if isinstance(value, (list, tuple)):
        names = getattr(value, "_fields", None)
        if isinstance(names, tuple) and len(names) == len(value):
            return ((f".{name}", item) for name, item in zip(names, value, strict=True))
        return ((f"[{index}]", item) for index, item in enumerate(value))
    if isinstance(value, Mapping):
        return ((_step(key), item) for key, item in value.items())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        stored = getattr(value, "__dict__", {})
        names = (field.name for field in dataclasses.fields(value))
        return ((f".{name}", stored.get(name, getattr(value, name, None))) for name in names)
    return iter(())


def _step(key: Any) -> str:
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"
