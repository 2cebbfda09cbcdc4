"""The backward pass: run inside the recorder, each operation given to the module call it serves.

Autograd numbers its nodes in the order they are made, so the numbers seen when calls begin and end tell, for
every node that runs later, inside which call it was made.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from assay.errors import UsageError
from assay.recorder.calls import CallLog
from assay.recorder.dispatch import Recorder
from assay.recorder.inventory import tensors_among
from assay.recorder.storages import StorageLog


def prepare(tensors: list[torch.Tensor]) -> tuple[str, ...]:
    """Clear gradients, so that the user's are not added to; where nothing is trainable, everything is made so."""
    for tensor in tensors:
        tensor.grad = None
    parameters = [tensor for tensor in tensors if isinstance(tensor, nn.Parameter) and tensor.is_floating_point()]
    if any(tensor.requires_grad for tensor in parameters):
        return ()
    for tensor in parameters:
        tensor.requires_grad_(True)
    return ("no parameter is trainable: the backward pass was run as if all were",)


def run(result: Any, recorder: Recorder, calls: CallLog) -> None:
    """Differentiate everything the model returned, recording what torch does."""
    outputs = differentiable(result)
    gradients = [torch.ones_like(output) for output in outputs]
    recorder.begin_backward(_locator(calls.autograd_events))
    torch.autograd.backward(outputs, gradients)


def differentiable(result: Any) -> list[torch.Tensor]:
    """The tensors that a model returned with a graph behind them; none is refused."""
    outputs = [tensor for tensor in tensors_among(result) if tensor.requires_grad]
    if not outputs:
        raise UsageError("the model returned nothing that can be differentiated: there is no backward pass")
    return outputs


def mark_gradients(tensors: list[torch.Tensor], storages: StorageLog) -> None:
    """Say of the gradients' storages what they are."""
    for tensor in tensors:
        if tensor.grad is not None:
            storages.rename(storages.find(tensor.grad, "gradient"), "gradient")


def _locator(events: list[tuple[int, int]]) -> Callable[[], int]:
    numbers = [number for number, _ in events]
    current_node = torch._C._current_autograd_node

    def locate() -> int:
        node = current_node()
        if node is None:
            return -1
        number = node._sequence_nr()
        position = bisect_right(numbers, number) - 1
        # Nodes that gather gradients carry the largest number there is and belong to no call.
        return events[position][1] if position >= 0 and number < 1 << 63 else -1

    return locate
