"""The verbs that compose the layers: open a source, watch it run, write what the spec asks for."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from assay.analyses.costing import with_cost
from assay.document.cost import Cost
from assay.document.document import Document, InputTensor, Machine, Run, Training
from assay.errors import PartialError, ReadError, UsageError
from assay.sources.opening import Opened, open_model

if TYPE_CHECKING:
    from assay.analyses.memory import Memory
    from assay.views.text.summary import Summary


def open(model: Any, *, model_args: Mapping[str, Any] | None = None, trust: bool = False) -> Opened:
    """What `model` points at: a live module, a `file.py::function`, a config directory, a file."""
    return open_model(model, model_args=model_args, trust=trust)


def observe(
    model: Any,
    inputs: Any = None,
    *,
    mode: str = "auto",
    device: str | None = None,
    dtype: str | None = None,
    train: bool = False,
    backward: bool = False,
    model_args: Mapping[str, Any] | None = None,
    trust: bool = False,
) -> Document:
    """The document of one forward pass of `model`; the model is left as it was.

    `mode` is `auto` (real where there are weights, else without data), `real`, `meta` or `fake`. With
    `backward` a training step is watched as well, in training mode. What everything costs is added up in
    `document.cost`.
    """
    if isinstance(model, Document):
        return model
    opened = model if isinstance(model, Opened) else open(model, model_args=model_args, trust=trust)
    if opened.document is not None:
        _refuse_options(opened, inputs=inputs, device=device, dtype=dtype, train=train, mode=mode)
        return opened.document if opened.document.cost is not None else with_cost(opened.document)
    if opened.module is None:
        raise ReadError(f"{opened.origin.location} holds no model that could run")
    return with_cost(_watched(opened, inputs, mode=mode, device=device, dtype=dtype, train=train, backward=backward))


def _watched(
    opened: Opened, inputs: Any, *, mode: str, device: str | None, dtype: str | None, train: bool, backward: bool
) -> Document:
    import torch

    from assay.sources.inputs import find_inputs
    from assay.watching import inventory, passes

    _check_device(device)
    train = train or backward
    without_data = mode in ("meta", "fake")
    given = find_inputs(inputs, opened, device=device, dtype=dtype)
    shown = passes.observe(
        opened.module, given.args, given.kwargs, mode=mode, train=train, device=device, dtype=dtype
    )
    training = None
    assumptions = shown.assumptions
    if backward and shown.failure is None:
        step = passes.observe_training(opened.module, given.args, given.kwargs, shown, device=device, dtype=dtype)
        if step.failure is not None:
            assumptions += (f"the backward pass stopped in '{step.failure.module}': {step.failure.error}",)
        else:
            training = Training(step.kinds, step.ops, step.storages)
            assumptions += step.assumptions
    named = [(f"args[{index}]", value) for index, value in enumerate(given.args)] + list(given.kwargs.items())
    tensors = tuple(
        InputTensor(name, inventory.tensor_type(value)) for name, value in named if isinstance(value, torch.Tensor)
    )
    return Document(
        origin=opened.origin,
        machine=Machine(
            python=platform.python_version(),
            torch=str(torch.__version__),
            system=f"{platform.system()} {platform.machine()}",
            device="none" if without_data else device or "cpu",
        ),
        run=Run(
            mode=shown.mode,
            inputs=tensors,
            inputs_from=given.how,
            training=train,
            dtype=dtype or "",
            backward=training is not None,
            assumptions=tuple(dict.fromkeys(assumptions)),
            failure=shown.failure,
            cache=shown.cache,
            timestamp=_now(),
        ),
        modules=shown.modules,
        tensors=shown.tensors,
        calls=shown.calls,
        kinds=shown.kinds,
        ops=shown.ops,
        storages=shown.storages,
        training=training,
    )


def _refuse_options(opened: Opened, **options: Any) -> None:
    """What is stored cannot be run again: options that would change the pass are refused, not ignored."""
    given = [
        f"--{name}" for name, value in options.items() if not any(value is none for none in (None, False, "auto"))
    ]
    if given:
        raise UsageError(f"{opened.origin.location} is read, not run: {', '.join(given)} cannot apply to it")


def _check_device(device: str | None) -> None:
    import torch

    if device is None:
        return
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"cannot run on device {device!r}: {reason}") from error


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).astimezone().isoformat(timespec="seconds")


def cost(model: Any, inputs: Any = None, **options: Any) -> Cost:
    """What one pass of `model` costs; options are those of `observe`.

    A pass that stops midway is an error here, for its sums would look whole; `observe` keeps what was learned.
    """
    document = observe(model, inputs, **options)
    failure = document.run.failure
    if failure is not None:
        raise PartialError(
            f"the forward pass stopped in '{failure.module}' ({failure.error}): assay.observe keeps what was learned"
        )
    assert document.cost is not None
    return document.cost


def summary(
    model: Any,
    inputs: Any = None,
    *,
    full: bool = False,
    depth: int | None = None,
    exact: bool = False,
    **options: Any,
) -> Summary:
    """The module tree of `model` with its figures, as text and as HTML; other options are those of `observe`."""
    from assay.views.text.summary import Summary

    return Summary(observe(model, inputs, **options), full=full, depth=depth, exact=exact)


def memory(
    model: Any, inputs: Any = None, *, optimizer: str = "adamw", master_weights: bool = False, **options: Any
) -> Memory:
    """What `model` needs in memory; other options are those of `observe`."""
    from assay.analyses.memory import memory_of

    return memory_of(observe(model, inputs, **options), optimizer=optimizer, master_weights=master_weights)
