"""Moves the weights of models to other places in memory between rounds.

Two copies of a model whose weights about fill the cache can differ by 5 % for as long as they stay where they are,
because some places share more of the cache than others. In rounds with other places, this is noise like any other.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from assay.recorder.inventory import size_in_bytes
from assay.timing.tensor_copies import copied

_LARGEST = 256 << 20
"""Bytes of weights beyond which they are not moved: they do not fit into any cache."""


def mover(models: Iterable[Any], seed: int) -> Callable[[], None]:
    """A function that moves the parameters of `models` in the memory of the CPU, unless they are too large."""
    found = {id(each): each for model in models for each in _parameters(model)}
    tensors = list(found.values())
    if sum(map(size_in_bytes, tensors)) > _LARGEST:
        return lambda: None
    order = random.Random(seed)

    def move() -> None:
        order.shuffle(tensors)
        for tensor, elsewhere in zip(tensors, copied(tensors), strict=True):
            tensor.data = elsewhere

    return move


def _parameters(model: Any) -> list[torch.Tensor]:
    parameters = model.parameters() if isinstance(model, nn.Module) else ()
    return [each for each in parameters if type(each) is nn.Parameter and _movable(each)]


def _movable(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.layout is torch.strided and not tensor.is_inference()
