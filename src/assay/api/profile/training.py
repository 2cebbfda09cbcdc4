"""Timing a training step: forward and backward bare, backward by module, the optimizer alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from assay.api.profile import figures, op_times
from assay.api.profile.profiled import ProfiledModel
from assay.document.document import Document
from assay.document.profile import StepTime
from assay.document.provenance import Figure, Measured, Unknown
from assay.errors import UsageError
from assay.recorder import inventory
from assay.timing.device import now, synchronizer
from assay.timing.measuring import bench, clock_ops

_OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {}),
    "sgd-momentum": ("SGD", {"momentum": 0.9}),
    "adam": ("Adam", {}),
    "adamw": ("AdamW", {}),
    "adam-amsgrad": ("Adam", {"amsgrad": True}),
    "adamax": ("Adamax", {}),
    "nadam": ("NAdam", {}),
    "radam": ("RAdam", {}),
    "adagrad": ("Adagrad", {}),
    "adadelta": ("Adadelta", {}),
    "rmsprop": ("RMSprop", {}),
    "rmsprop-momentum": ("RMSprop", {"momentum": 0.9}),
    "adafactor": ("Adafactor", {}),
}
"""Torch's own class for each, and what makes it that one."""

_REPEATS = 5


def step(profiled: ProfiledModel, document: Document, budget: Any, optimizer: str) -> StepTime:
    """The times of one training step."""

    model, inputs, setting = profiled.opened.module, profiled.inputs, profiled.setting(backward=True)
    with bench(model, inputs.args, inputs.kwargs, setting, keep_parameters=True) as stand:
        whole = stand.repeat(budget)
        forward = stand.repeat_forward(budget)
        stepped = _optimizer(stand, inventory.members(model).tensors, optimizer)
    timed = clock_ops(model, inputs.args, inputs.kwargs, setting, budget)
    modules, outside = op_times.backward_times(timed, timed.shown.calls, len(document.modules))
    total = figures.of_seconds(whole)
    back = (total.value or 0.0) - (figures.of_seconds(forward).value or 0.0)
    return StepTime(
        whole=total,
        backward=Figure(max(back, 0.0), Measured(f"{figures.CLOCK}: the step without its forward pass", len(whole))),
        optimizer=stepped,
        optimizer_name=optimizer,
        modules=modules,
        outside_s=outside,
    )


def _optimizer(stand: Any, tensors: Sequence[Any], name: str) -> Figure:

    if name not in _OPTIMIZERS:
        return Figure(None, Unknown(f"torch has no optimizer called {name}"))
    trained = [tensor for tensor in tensors if tensor.requires_grad]
    if not trained:
        raise UsageError("no parameter is trainable: there is no optimizer step")
    kind, options = _OPTIMIZERS[name]
    made = getattr(torch.optim, kind)(trained, lr=0.0, **options)
    wait = synchronizer(stand.device)
    samples = []
    for _ in range(_REPEATS + 1):
        stand.run()
        wait()
        begin = now()
        made.step()
        wait()
        samples.append(now() - begin)
        made.zero_grad(set_to_none=True)
    return figures.of_seconds(samples[1:])  # the first makes the state
