"""`assay.roofline`: a lower bound on the time of every op on a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from assay import host
from assay.analysis.ceilings import as_device
from assay.analysis.devices import Device, device_to_compute_on
from assay.analysis.roofline import Roofline, roofline_of
from assay.api.arguments import check_text
from assay.api.observe import observe_opened
from assay.api.options import RunOptions
from assay.api.partial import warn_if_partial
from assay.machine.reports import report_of_this_machine
from assay.sources.open import open_source


def roofline(
    model: Any,
    device: str,
    inputs: Any = None,
    *,
    mode: str = "auto",
    dtype: str | None = None,
    train: bool = False,
    as_is: bool = False,
    backward: bool = False,
    model_args: Mapping[str, Any] | None = None,
    trust: bool = False,
) -> Roofline:
    """Compute a lower bound on the time of one pass of `model` on a device, and the bottleneck of every kind of op.

    Args:
        model: Anything `assay.open` accepts that can be run, or a document.
        device: A device from the device table, such as `"H100"`, or `"this"` for this machine with the limits that
            `assay.measure_machine` measured.
        inputs: What to call the model with, in any form `assay.observe` accepts. If None, they are inferred.
        mode: `"auto"`, `"real"`, `"meta"` or `"fake"`, as for `assay.observe`.
        dtype: The floating-point dtype to run in, such as `"bfloat16"`. Default: the model's own.
        train: Run in training mode instead of evaluation mode.
        as_is: Run every module in the mode it is in, training or evaluation.
        backward: Analyse a training step instead of the forward pass.
        model_args: Keyword arguments for the function or class that builds the model. Default: no arguments.
        trust: Allow code stored in a file to run.

    Returns:
        The roofline: `bound_s` is the lower bound in seconds, and `kinds` has one row per kind of op. If the forward
        pass stops midway, a `PartialWarning` is issued, `partial` is True, and the bound covers only the ops before.

    Raises:
        UsageError: The device is unknown, this machine has not been measured, or another argument is not valid.
        InputsError: The inputs do not match the arguments of forward, or cannot be parsed or inferred.
        ReadError: The model or file cannot be read.
    """
    check_text("device", device, "H100")
    chosen = device_or_this_machine(device)  # report an unknown device before running the model
    options = RunOptions(mode, None, dtype, train, backward, model_args, trust, as_is=as_is)
    document = observe_opened(open_source(model, model_args=model_args, trust=trust), inputs, options)
    warn_if_partial(document)
    return roofline_of(document, chosen, training=backward)


def device_or_this_machine(name: str) -> Device:
    """The device of that name from the device table, or this machine with its measured limits for `this`."""
    return device_to_compute_on(name, this_machine)


def this_machine() -> Device | None:
    """This machine with the limits that `assay machine` measured, and the memory that the environment allows.

    None if it has not been measured.
    """
    report, fraction = report_of_this_machine(), host.cuda_memory_fraction()
    if report is None:
        return None
    device = as_device(report)
    if fraction is None or report.hardware.device != "cuda":
        return device
    source = f"{device.source}, {host.CUDA_MEMORY_FRACTION}={fraction:g} of its memory"
    return replace(device, memory_gib=fraction * device.memory_gib, source=source)
