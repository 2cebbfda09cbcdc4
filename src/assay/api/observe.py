"""`assay.observe`: the document of one pass."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Mapping
from typing import Any

from assay.analysis.cost.totals import with_cost
from assay.api.open import open
from assay.document.document import Document, InputTensor, Machine, Run, Training
from assay.errors import ReadError, UsageError
from assay.sources.open import Opened


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

    from assay.recorder import inventory, passes
    from assay.sources.inputs import find_inputs

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
