"""The tensors and numbers in nested values: containers, dataclasses, and objects such as caches."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

Leaves = dict[str, Any]
"""Tensors on the CPU, numbers and strings by their place in an output."""

_DEPTH = 8
"""Levels searched: a cache is an object with layers that contain tensors."""
_PLAIN = (bool, int, float, complex, str)


def leaves_of(output: Any) -> Leaves:
    """Copies on the CPU of the tensors in `output`, however nested, and its numbers and strings."""
    return {path: _copy(leaf) for path, leaf in walk(output)}


def walk(value: Any, path: str = "", above: tuple[int, ...] = ()) -> Iterator[tuple[str, Any]]:
    """The tensors, arrays, numbers and strings in `value`, each with its place."""
    if isinstance(value, (torch.Tensor, np.ndarray, *_PLAIN)):
        yield path, value
    elif len(above) < _DEPTH and id(value) not in above:
        for name, item in _items(value):
            yield from walk(item, f"{path}.{name}" if path else name, (*above, id(value)))


def _items(value: Any) -> list[tuple[str, Any]]:
    """The named parts of a container or an object; none of a module, a function or a type."""
    if isinstance(value, Mapping):
        return [(str(key), item) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [(str(place), item) for place, item in enumerate(value)]
    if isinstance(value, nn.Module) or callable(value):
        return []
    if dataclasses.is_dataclass(value):
        return [(each.name, getattr(value, each.name)) for each in dataclasses.fields(value)]
    # The numbers and strings of any other object are counters and settings, and not results.
    return [(name, item) for name, item in getattr(value, "__dict__", {}).items() if not isinstance(item, _PLAIN)]


def _copy(leaf: Any) -> Any:
    """A dense copy on the CPU of a tensor: some changes return memory that the next pass overwrites."""
    if isinstance(leaf, (float, np.ndarray)):
        return torch.tensor(leaf, dtype=torch.float64 if isinstance(leaf, float) else None)
    if not isinstance(leaf, torch.Tensor):
        return leaf
    plain = leaf.detach()
    if plain.is_nested:
        plain = torch.cat([each.reshape(-1) for each in plain.unbind()])
    if plain.is_quantized:
        plain = plain.dequantize()
    return (plain if plain.layout is torch.strided else plain.to_dense()).cpu().clone()
