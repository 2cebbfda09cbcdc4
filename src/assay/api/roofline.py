"""`assay.roofline`: a lower bound of the time of every operation on a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.analysis.ceilings import as_device
from assay.analysis.devices import Device, find
from assay.analysis.roofline import Roofline, bound
from assay.api.observe import observed
from assay.api.options import RunOptions
from assay.machine.reports import of_this_machine
from assay.sources.open import open_source


def roofline(
    model: Any,
    device: str,
    inputs: Any = None,
    *,
    mode: str = "auto",
    dtype: str | None = None,
    train: bool = False,
    backward: bool = False,
    model_args: Mapping[str, Any] | None = None,
    trust: bool = False,
) -> Roofline:
    """The least time that one pass of `model` takes on a device, by operation, and what bounds each.

    Args:
        model: Anything `assay.open` takes that can be run, or a document.
        device: A name of the device table such as `"H100"`, or `"this"` for this machine as it was measured.
        inputs: What to call the model with, as `assay.observe` takes it; inferred where left out.
        mode: `"auto"`, `"real"`, `"meta"` or `"fake"`, as in `assay.observe`.
        dtype: The floating-point type to run in, such as `"bfloat16"`.
        train: Run in training mode.
        backward: Bound a training step instead of the forward pass.
        model_args: Keyword arguments for the function or class that builds the model.
        trust: Allow code from a file to run.
    """
    chosen = device_named(device)  # an unknown name is reported before the model runs
    options = RunOptions(mode, None, dtype, train, backward, model_args, trust)
    document = observed(open_source(model, model_args=model_args, trust=trust), inputs, options)
    return bound(document, chosen, training=backward)


def device_named(name: str) -> Device:
    """The device of the table, or this machine as it was measured."""
    return find(name, this_machine)


def this_machine() -> Device | None:
    """This machine as `assay machine` measured it; None where it was not."""
    report = of_this_machine()
    return None if report is None else as_device(report)
