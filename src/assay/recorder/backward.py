"""The backward pass, run inside the recorder, with each op attributed to a module call of the forward pass.

Autograd numbers its nodes in order of creation. The numbers at the beginning and end of each call therefore show in
which call a node was created when it runs later.
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
    """Clear all gradients and, if no parameter is trainable, make all trainable; returns a note if so."""
    for tensor in tensors:
        tensor.grad = None
    parameters = [tensor for tensor in tensors if isinstance(tensor, nn.Parameter) and tensor.is_floating_point()]
    if any(tensor.requires_grad for tensor in parameters):
        return ()
    for tensor in parameters:
        tensor.requires_grad_(True)
    return ("no parameter is trainable: the backward pass was run as if all were",)


def run(result: Any, recorder: Recorder, calls: CallLog) -> None:
    """Run the backward pass from all outputs of the model and record it."""
    outputs = differentiable(result)
    gradients = [torch.ones_like(output) for output in outputs]
    recorder.begin_backward(_locator(calls.autograd_events))
    torch.autograd.backward(outputs, gradients)


def differentiable(result: Any) -> list[torch.Tensor]:
    """The tensors in a model's result that require grad; raises `UsageError` if there are none."""
    outputs = [tensor for tensor in tensors_among(result) if tensor.requires_grad]
    if not outputs:
        raise UsageError("the model returned no tensor that requires grad: a backward pass is not possible")
    return outputs


def mark_gradients(tensors: list[torch.Tensor], storages: StorageLog) -> None:
    """Set the role of the gradients' storages to `gradient`."""
    for tensor in tensors:
        if tensor.grad is not None:
            storages.set_role(storages.find(tensor.grad, "gradient"), "gradient")


def _locator(events: list[tuple[int, int]]) -> Callable[[], int]:
    """A function that returns the call in which the current autograd node was created, or -1."""
    numbers = [number for number, _ in events]
    current_node = torch._C._current_autograd_node

    def locate() -> int:
        node = current_node()
        if node is None:
            return -1
        number = node._sequence_nr()
        position = bisect_right(numbers, number) - 1
        # Nodes that accumulate gradients have the largest possible number and belong to no call.
        return events[position][1] if position >= 0 and number < 1 << 63 else -1

    return locate
