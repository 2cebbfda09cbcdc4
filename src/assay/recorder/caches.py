"""The KV cache in a decoder's output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from assay.document.document import KeyValueCache
from assay.recorder.inventory import tensors_among

_DEPTH = 4
"""Levels searched: a cache is an object with layers that contain tensors."""


def key_value_cache(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> KeyValueCache | None:
    """The cache in `past_key_values` of the result, with the batch and length of the token ids; None if absent."""
    cache = result.get("past_key_values") if isinstance(result, Mapping) else getattr(result, "past_key_values", None)
    inputs = tensors_among((kwargs, args))
    ids = next((tensor for tensor in inputs if tensor.dim() == 2 and not tensor.is_floating_point()), None)
    tensors = {id(tensor): tensor for tensor in _tensors(cache, _DEPTH)}.values()
    if ids is None or not tensors:
        return None
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    batch, length = ids.shape
    heads = {tensor.shape[1] for tensor in tensors}
    if any(tensor.dim() != 4 or (tensor.shape[0], tensor.shape[2]) != (batch, length) for tensor in tensors):
        heads = set()
    return KeyValueCache(size, batch, length, len(tensors), heads=min(heads, default=None))


def _tensors(value: Any, depth: int) -> Iterator[torch.Tensor]:
    """The tensors with at least 3 dimensions in `value`, up to `depth` levels deep."""
    if isinstance(value, torch.Tensor):
        if value.dim() >= 3:
            yield value
        return
    if value is None or depth == 0 or isinstance(value, (str, bytes, int, float, type)):
        return
    if isinstance(value, Mapping):
        items: Any = value.values()
    elif isinstance(value, (list, tuple)):
        items = value
    else:
        items = getattr(value, "__dict__", {}).values()
    for item in items:
        yield from _tensors(item, depth - 1)
