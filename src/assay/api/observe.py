"""`assay.observe`: the document of one pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from assay import host
from assay.analysis.cost.totals import with_cost
from assay.api.options import RunOptions
from assay.document.document import Document, InputTensor, Run, Training
from assay.document.this_machine import this_machine
from assay.errors import UsageError
from assay.messages import first_line
from assay.sources.open import open_source
from assay.sources.opened import Opened

if TYPE_CHECKING:
    from assay.recorder.watch import Pass
    from assay.sources.inputs import Inputs


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
    """The document of one forward pass of `model`, with its cost; the model is left bit for bit as it was.

    A saved document or an exported program is read and returned without running anything. A pass that stops midway
    is kept as far as it came: `document.run.failure` says where and why.

    Args:
        model: Anything `assay.open` takes.
        inputs: What to call the model with: a tensor, a tuple or list of arguments, a dict of keywords,
            `(args, kwargs)`, a function that returns one of these, `"file.py::function"` or a literal such as
            `"1x3x224x224:float32"`. Inferred where left out.
        mode: `"auto"` (with data where the weights are in memory, else on shapes alone), `"real"`, `"meta"` or
            `"fake"`.
        device: The torch device to run on.
        dtype: The floating-point type to run in, such as `"bfloat16"`.
        train: Run in training mode.
        backward: Record a training step as well, in training mode.
        model_args: Keyword arguments for the function or class that builds the model.
        trust: Allow code from a file to run.
    """
    options = RunOptions(mode, device, dtype, train, backward, model_args, trust)
    return observed(open_source(model, model_args=model_args, trust=trust), inputs, options)


def observed(opened: Opened, inputs: Any, options: RunOptions) -> Document:
    """The document of one pass of what was opened; `inputs` as `observe` takes them, or found before."""
    document = opened.document
    if document is not None:
        absent = options.backward and document.training is None
        options.refuse_for(opened.origin, inputs=inputs is not None, backward=absent)
        return document if document.cost is not None else with_cost(document)
    if options.mode == "real":
        opened = opened.with_weights
    return with_cost(_recorded(opened, inputs, options))


def _recorded(opened: Opened, inputs: Any, options: RunOptions) -> Document:
    from assay.recorder import passes
    from assay.sources.exported.run import with_classes
    from assay.sources.inputs import find_inputs

    opened.model  # noqa: B018  what cannot be opened is reported before what is wrong with the options
    check_place(options)
    device, dtype = options.device, options.dtype
    found = find_inputs(inputs, opened, device=device, dtype=dtype)
    train = options.train or options.backward
    shown = passes.observe(
        opened.module, found.args, found.kwargs, mode=options.mode, train=train, device=device, dtype=dtype
    )
    step = None
    if options.backward and shown.failure is None:
        step = passes.observe_training(opened.module, found.args, found.kwargs, shown, device=device, dtype=dtype)
    document = _document(opened, found, options, shown, step)
    return with_classes(document, opened.model.classes)


def _document(opened: Opened, inputs: Inputs, options: RunOptions, shown: Pass, step: Pass | None) -> Document:
    import torch

    stepped = step is not None and step.failure is None
    assumptions = shown.assumptions + (step.assumptions if step is not None and stepped else ())
    return Document(
        origin=opened.origin,
        machine=this_machine(
            torch=str(torch.__version__), device="none" if options.without_data else options.device or "cpu"
        ),
        run=Run(
            mode=shown.mode,
            inputs=_tensors(inputs),
            inputs_from=inputs.how,
            inputs_kind=inputs.kind,
            training=options.train or options.backward,
            dtype=options.dtype or "",
            backward=stepped,
            assumptions=tuple(dict.fromkeys(assumptions)),
            failure=shown.failure,
            attempts=shown.attempts,
            backward_failure=step.failure if step is not None else None,
            cache=shown.cache,
            timestamp=host.now(),
        ),
        modules=shown.modules,
        tensors=shown.tensors,
        calls=shown.calls,
        kinds=shown.kinds,
        ops=shown.ops,
        storages=shown.storages,
        training=Training(step.kinds, step.ops, step.storages) if step is not None and stepped else None,
    )


def _tensors(inputs: Inputs) -> tuple[InputTensor, ...]:
    import torch

    from assay.recorder import inventory

    named = [(f"args[{index}]", value) for index, value in enumerate(inputs.args)] + list(inputs.kwargs.items())
    return tuple(
        InputTensor(name, inventory.tensor_type(value)) for name, value in named if isinstance(value, torch.Tensor)
    )


def check_place(options: RunOptions) -> None:
    """Refuse a device that torch cannot use, and a dtype that it does not have."""
    import torch

    from assay.sources.tensors import DTYPES, dtype_name

    if options.dtype is not None and dtype_name(options.dtype) is None:
        raise UsageError(f"unknown dtype {options.dtype!r}: one of {', '.join(DTYPES)}")
    try:
        torch.empty(0, device=options.device)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"cannot run on device {options.device!r}: {first_line(error)}") from error
