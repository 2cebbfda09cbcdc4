"""`assay.observe`: record one forward pass as a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from assay import host
from assay.analysis.cost.totals import with_cost
from assay.api.arguments import check_text
from assay.api.options import RECORDING, OnProgress, Progress, RunOptions, unreported
from assay.api.partial import warn_if_partial
from assay.api.unquantized import unquantized
from assay.document.document import Document, InputTensor, Run, Training
from assay.document.this_machine import this_machine
from assay.errors import UsageError
from assay.messages import alternatives, first_line
from assay.sources.open import open_source
from assay.sources.opened import Opened

if TYPE_CHECKING:
    import torch

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
    as_is: bool = False,
    backward: bool = False,
    model_args: Mapping[str, Any] | None = None,
    trust: bool = False,
) -> Document:
    """Record one forward pass of `model`, with its modules, calls, ops, tensors and cost.

    The model is left exactly as it was. A saved document or an exported program is read instead of run.

    Args:
        model: Anything `assay.open` accepts.
        inputs: What to call the model with: a tensor, a tuple or list of arguments, a dict of keyword arguments,
            `(args, kwargs)`, a function that returns one of these, `"file.py::function"`, or a literal such as
            `"1x3x224x224:float32"`. If None, they are inferred.
        mode: `"real"` runs with data, `"meta"` on torch's meta device and `"fake"` with fake tensors, both of which
            compute shapes only. `"auto"` runs with data if the weights are in memory, and on shapes otherwise.
        device: The torch device to run on, such as `"cuda:0"`. Default: where the model is.
        dtype: The floating-point dtype to run in, such as `"bfloat16"`. Default: the model's own.
        train: Run in training mode instead of evaluation mode.
        as_is: Run every module in the mode it is in, training or evaluation.
        backward: Also record a training step (forward and backward pass), in training mode.
        model_args: Keyword arguments for the function or class that builds the model. Default: no arguments.
        trust: Allow code stored in a file to run.

    Returns:
        The document. If the forward pass stops midway, a `PartialWarning` is issued, `complete` is False, the
        document holds what was recorded until then, and `document.run.failure` holds the module and the error.

    Raises:
        UsageError: An argument is not valid, or does not apply to this model.
        InputsError: The inputs do not match the arguments of forward, or cannot be parsed or inferred.
        ReadError: The model or file cannot be read.
    """
    options = RunOptions(mode, device, dtype, train, backward, model_args, trust, as_is=as_is)
    document = observe_opened(open_source(model, model_args=model_args, trust=trust), inputs, options)
    warn_if_partial(document)
    return document


def observe_opened(
    opened: Opened, inputs: Any, options: RunOptions, on_progress: OnProgress = unreported
) -> Document:
    """The document of one pass of an opened model; `inputs` in any form `observe` accepts, or an `Inputs`."""
    document = opened.document
    if document is not None:
        lacks_step = options.backward and document.training is None
        options.check_unused(opened.origin, inputs=inputs is not None, backward=lacks_step)
        return document if document.cost is not None else with_cost(document)
    if options.mode == "real":
        opened = opened.with_weights
    return with_cost(_recorded(opened, inputs, options, on_progress))


def _recorded(opened: Opened, inputs: Any, options: RunOptions, on_progress: OnProgress) -> Document:
    from assay.recorder import passes
    from assay.sources.exported.run import with_classes
    from assay.sources.inputs import check_affordable

    check_can_run(opened, options)
    device, dtype = options.device, options.dtype
    call = inputs_for(opened, inputs, device=device, dtype=dtype, on_progress=on_progress)
    if not options.without_data and not opened.model.on_meta:
        check_affordable(call)
    on_progress(Progress(RECORDING))
    forward = passes.observe(
        opened.module, call.args, call.kwargs, mode=options.mode, train=options.training, device=device, dtype=dtype
    )
    step = None
    if options.backward and forward.failure is None:
        on_progress(Progress("recording a training step"))
        step = passes.observe_training(opened.module, call.args, call.kwargs, forward, device=device, dtype=dtype)
    document = _document(opened, call, options, forward, step)
    return with_classes(document, opened.model.classes)


def _document(opened: Opened, inputs: Inputs, options: RunOptions, forward: Pass, step: Pass | None) -> Document:
    import torch

    from assay.recorder.precision import float32_settings

    device = _device_of(opened, options, forward)
    step_succeeded = step is not None and step.failure is None
    assumptions = forward.assumptions + (step.assumptions if step is not None and step_succeeded else ())
    assumptions += unquantized(opened.model, forward.tensors)
    return Document(
        origin=opened.origin,
        machine=replace(
            this_machine(torch=str(torch.__version__), device=device, processor=_processor_of(device)),
            **float32_settings(),
        ),
        run=Run(
            mode=forward.mode,
            inputs=_tensors(inputs),
            inputs_from=inputs.how,
            inputs_kind=inputs.kind,
            training=forward.modules[0].training if options.training is None else options.training,
            as_is=options.as_is,
            dtype=options.dtype or "",
            backward=step_succeeded,
            assumptions=tuple(dict.fromkeys(assumptions)),
            failure=forward.failure,
            attempts=forward.attempts,
            backward_failure=step.failure if step is not None else None,
            cache=forward.cache,
            timestamp=host.now(),
        ),
        modules=forward.modules,
        tensors=forward.tensors,
        calls=forward.calls,
        kinds=forward.kinds,
        ops=forward.ops,
        storages=forward.storages,
        host_reads=list(forward.host_reads),
        training=Training(step.kinds, step.ops, step.storages) if step is not None and step_succeeded else None,
    )


def _tensors(inputs: Inputs) -> tuple[InputTensor, ...]:
    import torch

    from assay.recorder import inventory

    named = [(f"args[{index}]", value) for index, value in enumerate(inputs.args)] + list(inputs.kwargs.items())
    return tuple(
        InputTensor(name, inventory.tensor_type(value)) for name, value in named if isinstance(value, torch.Tensor)
    )


def _device_of(opened: Opened, options: RunOptions, forward: Pass) -> str:
    """The device on which the pass ran: the requested one, or the model's own; `none` if it ran without data."""
    from assay.recorder.passes import SHAPE_MODES
    from assay.sources.placing import model_device

    if options.without_data or forward.mode in SHAPE_MODES:
        return "none"
    own = model_device(opened.module)
    return str(options.device or (own if own not in (None, "meta") else "cpu"))


def _processor_of(device: str) -> str:
    """The model name of a device; of the CPU if nothing ran; empty if it is unknown."""
    import torch

    from assay.machine.hardware import processor

    if device.startswith("cuda"):
        return str(torch.cuda.get_device_name(device))
    return processor() or "" if device in ("cpu", "none") else ""


def inputs_for(
    opened: Opened, inputs: Any, *, device: str | None, dtype: str | None, on_progress: OnProgress = unreported
) -> Inputs:
    """The inputs of a pass: given, or inferred by trials on a copy that leave the state it shares with the model."""
    from assay.recorder.guard import restored_state
    from assay.recorder.inventory import members
    from assay.sources.inputs import find_inputs

    if inputs is not None:
        return find_inputs(inputs, opened, device=device, dtype=dtype)
    on_progress(Progress("inferring inputs"))
    with restored_state(members(opened.module).modules):
        return find_inputs(None, opened, device=device, dtype=dtype)


def check_can_run(opened: Opened, options: RunOptions) -> None:
    """Raise if the model cannot be opened, or a setting is not valid: device, dtype, or the environment's limit."""
    opened.model  # noqa: B018  report a model that cannot be opened before an option that is not valid
    host.cuda_memory_fraction()
    _check_dtype(options.dtype)
    _check_device(options.device)


def _check_dtype(dtype: Any) -> None:
    from assay.sources.tensors import DTYPES, dtype_name, is_floating

    check_text("dtype", dtype, "bfloat16", optional=True)
    if dtype is None:
        return
    name = dtype_name(dtype)
    if name is None or not is_floating(name):
        expected = ", ".join(filter(is_floating, DTYPES))
        problem = "unknown dtype" if name is None else "cannot run in dtype"
        raise UsageError(f"{problem} {dtype!r}: expected one of {expected}")


def _check_device(name: Any) -> None:
    import torch

    if not isinstance(name, torch.device):
        check_text("device", name, "cuda:0", optional=True)
    try:
        device = None if name is None else torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"unknown device {name!r}: expected cpu, cuda, cuda:1, mps or xpu") from error
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ImportError) as error:
        raise UsageError(f"cannot run on device {name!r}: {_why_unusable(device, error)}") from error


def _why_unusable(device: torch.device | None, error: BaseException) -> str:
    """That the device is not available here, and which ones are; for a device that is, the error of torch."""
    import torch

    counts = _device_counts()
    if device is not None and (device.index or 0) < counts.get(device.type, 0):
        return first_line(error)
    names = [name if count == 1 else f"{name}:{index}" for name, count in counts.items() for index in range(count)]
    return f"not available on this machine with torch {torch.__version__}: expected {alternatives(names)}"


def _device_counts() -> dict[str, int]:
    """How many devices of each type torch can use here."""
    import torch

    return {
        "cpu": 1,
        "cuda": torch.cuda.device_count(),
        "mps": int(torch.backends.mps.is_available()),
        "xpu": torch.xpu.device_count(),
    }
