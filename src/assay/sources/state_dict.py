"""The tensors and numpy arrays of a state dict or training checkpoint in memory, by dotted name."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from assay.sources.needs import is_tensor

_MAX_DEPTH = 100


def tensors_in(holder: Mapping[Any, Any]) -> dict[str, Any]:
    """The tensors by name, as they are named in a file of the same contents: `model.0.weight`."""
    return dict(_walk("", holder, ()))


def _walk(name: str, value: Any, above: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    """The tensors in `value`, which is inside of the containers `above`; what contains itself is entered once."""
    if is_tensor(value) or is_array(value):
        yield name, value
        return
    if not isinstance(value, (Mapping, list, tuple)) or id(value) in above or len(above) == _MAX_DEPTH:
        return
    items = value.items() if isinstance(value, Mapping) else enumerate(value)
    for key, item in items:
        yield from _walk(f"{name}.{key}" if name else str(key), item, (*above, id(value)))


def is_array(value: object) -> bool:
    """Whether `value` is a numpy array; always False if numpy was never imported."""
    return "numpy" in sys.modules and isinstance(value, sys.modules["numpy"].ndarray)
