"""The gradients of one backward pass as rows of a document; the model is left as it was."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from assay.document.activations import GradientValues
from assay.forward_stats.reading import TensorReader
from assay.forward_stats.tensors import of_result
from assay.forward_stats.values import ValueStats
from assay.recorder import inventory
from assay.recorder.backward import differentiable
from assay.recorder.guard import values_restored
from assay.recorder.watch import PassSettings, prepared_model

_SEED = 0


def record_gradients(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], setting: PassSettings, *, keep_parameters: bool
) -> list[GradientValues]:
    """One row per trainable parameter after one backward pass; raises what the model raises.

    `keep_parameters` also restores the values of parameters, for models that write to them in forward.
    """
    members = inventory.members(model)
    with prepared_model(model, members, args, kwargs, setting) as prepared:
        placed = inventory.take_inventory(model)
        held = {id(each): each for each in (*placed.live_tensors, *prepared.held)}.values()
        written = [each for each in held if keep_parameters or not isinstance(each, nn.Parameter)]
        inputs = tree_map_only(torch.Tensor, _own, (prepared.args, prepared.kwargs))
        with values_restored(written), torch.enable_grad():
            _backward(model(*inputs[0], **inputs[1]))
            return _rows(placed.live_tensors)


def _backward(result: Any) -> None:
    """Backward from all outputs with random gradients.

    Gradients of one would vanish at a softmax or a normalisation, over which every sum is constant.
    """
    outputs = [each for _, each in of_result(result) if each.requires_grad] or differentiable(result)
    torch.manual_seed(_SEED)  # the guard restores the random state
    torch.autograd.backward(
        outputs, [torch.randn_like(each) if each.dim() else torch.ones_like(each) for each in outputs]
    )


def _rows(tensors: Iterable[torch.Tensor]) -> list[GradientValues]:
    reader = TensorReader()
    trainable = [(index, each) for index, each in enumerate(tensors) if each.requires_grad and each.is_leaf]
    read = [
        (index, each.numel(), reader.read(each), _read(reader, each.grad), _read(reader, _zeros(each.grad)))
        for index, each in trainable
    ]
    reader.queue.resolve()
    got = [
        (
            index,
            count,
            *(None if each is None else each if isinstance(each, ValueStats) else each.get() for each in stats),
        )
        for index, count, *stats in read
    ]
    return [_row(index, count, weight, gradient, zeros) for index, count, weight, gradient, zeros in got]


def _read(reader: TensorReader, tensor: torch.Tensor | None) -> Any:
    return None if tensor is None else reader.read(tensor)


def _zeros(gradient: torch.Tensor | None) -> torch.Tensor | None:
    return None if gradient is None or gradient.layout is not torch.strided else gradient == 0


def _row(
    tensor: int, count: int, weight: ValueStats | None, gradient: ValueStats | None, zeros: ValueStats | None
) -> GradientValues:
    if gradient is None:
        return GradientValues(tensor, received=False, count=count, weight_norm=_norm(weight, count))
    return GradientValues(
        tensor=tensor,
        count=count,
        norm=_norm(gradient, count),
        max_abs=_max_abs(gradient),
        zeros=None if zeros is None or not isinstance(zeros.mean, (int, float)) else float(zeros.mean),
        weight_norm=_norm(weight, count),
        nan=bool(gradient.nan),
        inf=bool(gradient.inf),
    )


def _norm(values: ValueStats | None, count: int) -> float | None:
    """The L2 norm; None if it is unknown or not finite."""
    if values is None or not isinstance(values.mean, (int, float)):
        return None
    squares = count * values.mean**2 + (count - 1) * (values.std or 0.0) ** 2
    return math.sqrt(squares) if math.isfinite(squares) else None


def _max_abs(values: ValueStats) -> float | None:
    low, high = values.min, values.max
    if not isinstance(low, (int, float)) or not isinstance(high, (int, float)):
        return None
    largest = float(max(abs(low), abs(high)))
    return largest if math.isfinite(largest) else None


def _own(tensor: torch.Tensor) -> torch.Tensor:
    """A copy that the pass may write into, so that the user's tensor stays unchanged."""
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)
