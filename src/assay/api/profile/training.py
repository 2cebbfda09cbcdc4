"""Times of a training step: forward and backward pass, backward pass per module, and the optimizer step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from assay.analysis.memory import memory_of
from assay.api.profile import figures
from assay.api.profile.conditions import quiet_pass
from assay.api.profile.op_times import RecordedOps
from assay.api.profile.profiled import ProfiledModel
from assay.document.document import Document
from assay.document.profile import MemoryMeasured, StepTime
from assay.document.provenance import Figure, Measured, Unknown
from assay.errors import UsageError
from assay.recorder import inventory
from assay.timing import resident
from assay.timing.bench import Budget
from assay.timing.device import now, synchronizer
from assay.timing.rounds import clock_recorded_ops

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
"""The class in `torch.optim` for each optimizer name, and the arguments that select the variant."""

_REPEATS = 5


def step(profiled: ProfiledModel, document: Document, budget: Budget, optimizer: str) -> StepTime:
    """The times of one training step; each of its three measurements takes a third of the budget."""
    budget = budget._replace(seconds=budget.seconds / 3)
    model, inputs, setting = profiled.opened.module, profiled.inputs, profiled.setting(backward=True)
    with profiled.bench(backward=True) as runner:
        whole = runner.repeat(budget)
        forward = runner.repeat_forward(budget)
        tensors = inventory.members(model).tensors
        optimizer_time = _optimizer(runner, tensors, optimizer)
        memory = _memory(runner, tensors, optimizer, document)
    ops = RecordedOps(clock_recorded_ops(model, inputs.args, inputs.kwargs, setting, budget), "backward")
    spans = [ops.own(index) for index in range(len(document.modules))]
    total, ahead = quiet_pass(whole), quiet_pass(forward)
    return StepTime(
        whole=total,
        backward=_difference(total, ahead, len(whole)),
        forward=ahead,
        optimizer=optimizer_time,
        optimizer_name=optimizer,
        modules=[None if span is None else span.ns / 1e9 for span in spans],
        outside_s=ops.outside().ns / 1e9,
        memory=memory,
    )


def _difference(step: Figure, forward: Figure, repeats: int) -> Figure:
    if step.value is None or forward.value is None:
        return step if step.value is None else forward
    seconds = max(step.value - forward.value, 0.0)
    return Figure(seconds, Measured(f"{figures.CLOCK}: the step minus its forward pass", repeats))


def _memory(runner: Any, tensors: Sequence[Any], name: str, document: Document) -> MemoryMeasured:
    """The memory of two steps with the optimizer: its state is allocated in the first and exists in the second."""
    training = memory_of(document, optimizer=name).training
    assert training is not None
    predicted = Figure(int(training.total.value or 0) - int(training.resident.value or 0), training.total.how)
    if _optimizer_class(name) is None:
        unknown = _no_optimizer(name)
        return MemoryMeasured(unknown, unknown, unknown, predicted, unknown)

    def steps() -> None:
        optimizer = _new_optimizer(name, tensors)
        for _ in range(2):
            runner.run()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    return resident.measured(steps, runner.device, predicted, repeats=1)


def _optimizer(runner: Any, tensors: Sequence[Any], name: str) -> Figure:
    """The time of one optimizer step; unknown if torch does not have this optimizer."""
    if _optimizer_class(name) is None:
        return _no_optimizer(name)
    optimizer = _new_optimizer(name, tensors)
    wait = synchronizer(runner.device)
    samples = []
    for _ in range(_REPEATS + 1):
        runner.run()
        wait()
        begin = now()
        optimizer.step()
        wait()
        samples.append(now() - begin)
        optimizer.zero_grad(set_to_none=True)
    return figures.median_of(samples[1:])  # the first step also allocates the optimizer's state


def _optimizer_class(name: str) -> Any:
    return getattr(torch.optim, _OPTIMIZERS.get(name, (name, {}))[0], None)


def _no_optimizer(name: str) -> Figure:
    return Figure(None, Unknown(f"torch {torch.__version__} has no optimizer named {name}"))


def _new_optimizer(name: str, tensors: Sequence[Any]) -> Any:
    """The optimizer of the trainable tensors, with a learning rate of 0."""
    trainable = [tensor for tensor in tensors if tensor.requires_grad]
    if not trainable:
        raise UsageError("no parameter is trainable, so there is no optimizer step to time")
    return _optimizer_class(name)(trainable, lr=0.0, **_OPTIMIZERS.get(name, (name, {}))[1])
