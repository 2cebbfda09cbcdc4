"""Filling in `Document.activations`: one more pass with data, and one backward pass if it was requested."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec.structs import replace as replaced

from assay.api.options import RunOptions
from assay.api.profile.profiled import ProfiledModel, prepare
from assay.document.activations import Activations, GradientValues
from assay.document.provenance import Counted
from assay.messages import error_line
from assay.sources.opened import Opened

BY_BACKWARD = Counted("all values of the gradients of one backward pass from random output gradients")


def record_activations(
    model: Opened | ProfiledModel,
    inputs: Any,
    options: RunOptions,
    *,
    backward: bool = False,
    writes_parameters: bool = True,
    maps: bool = False,
) -> Activations | None:
    """Statistics of the outputs in one pass of an opened model, and with `backward` of its gradients.

    Returns None if the model has no data to run with. `inputs` in any form `observe` accepts, or an `Inputs`; they
    are ignored for a `ProfiledModel`, which has its own. `writes_parameters` is False if it is known that a pass does
    not write to parameters (`analysis.flow.writes_parameters`); else they are copied during the backward pass.
    `maps` adds images of the outputs of convolutions.
    """
    if isinstance(model, Opened) and not _has_data(model, options):
        return None
    runnable = model if isinstance(model, ProfiledModel) else prepare(model, inputs, options, load=False)
    if not _has_data(runnable.opened, options):
        return None
    runnable = replace(runnable, options=options, writes_parameters=writes_parameters)
    from assay.forward_stats.activations import record_values

    module, call = runnable.opened.module, runnable.inputs
    values = record_values(module, call.args, call.kwargs, runnable.setting(), maps=maps)
    if not backward or values.failure:
        return values
    gradients, why = _gradients(runnable)
    columns = {**values.columns, "gradients": BY_BACKWARD}
    return replaced(values, gradients=gradients, backward_failure=why, columns=columns)


def _has_data(opened: Opened, options: RunOptions) -> bool:
    """Whether a pass of the model would compute values: its weights are in memory, and are not yet to be shaped."""
    if options.without_data or (opened.saved is not None and not opened.runs):
        return False
    from torch.nn.parameter import is_lazy

    from assay.recorder.inventory import members

    tensors = members(opened.module).tensors
    return not opened.model.on_meta and not any(is_lazy(each) for each in tensors)


def _gradients(runnable: ProfiledModel) -> tuple[list[GradientValues], str]:
    """The gradients of one backward pass, or the reason why there are none."""
    from assay.forward_stats.gradients import record_gradients

    module, call, setting = runnable.opened.module, runnable.inputs, runnable.setting(backward=True)
    try:
        keep = runnable.writes_parameters
        return record_gradients(module, call.args, call.kwargs, setting, keep_parameters=keep), ""
    except Exception as error:  # noqa: BLE001  an error of the model is part of the result
        return [], error_line(error)
