"""The tensors among a call's arguments and results, each with the path one would write to get it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch

_PLAIN = frozenset({int, float, bool, str, bytes, complex, type(None), torch.dtype, torch.device})
_DEEPEST = 32
MOST = 1_000
"""Tensors of one call that are looked at."""

NamedTensors = list[tuple[str, torch.Tensor]]


def of_arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NamedTensors:
    """The tensors a call gets: `args[0]`, `args[1].hidden[2]`, `kwargs.mask`."""
    if len(args) == 1 and not kwargs and isinstance(args[0], torch.Tensor):
        return [("args[0]", args[0])]
    found: NamedTensors = []
    for index, value in enumerate(args):
        _collect(f"args[{index}]", value, found, 0)
    for name, value in kwargs.items():
        _collect(f"kwargs.{name}", value, found, 0)
    return found


def of_result(result: Any) -> NamedTensors:
    """The tensors a call gives back: `out`, `out[0]`, `out.logits`."""
    if isinstance(result, torch.Tensor):
        return [("out", result)]
    found: NamedTensors = []
    _collect("out", result, found, 0)
    return found


def _collect(path: str, value: Any, found: NamedTensors, depth: int) -> None:
    if isinstance(value, torch.Tensor):
        if len(found) < MOST:
            found.append((path, value))
        return
    if value.__class__ in _PLAIN or depth == _DEEPEST:  # so deep are only containers that hold themselves
        return
    for step, item in _items(value):
        if item.__class__ not in _PLAIN and len(found) < MOST:
            _collect(path + step, item, found, depth + 1)


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    """What a container holds, with the step that leads there; nothing for what is no container."""
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
