"""Activation functions that overwrite their inputs."""

from __future__ import annotations

from typing import Any

from torch import nn

from assay.document.trials import EXACT
from assay.trials.change import Change, NotApplicable, register
from assay.trials.changes.dry_pass import (
    RECORDED_PASS,
    RECORDED_PASS_IMPORTS,
    RecordedPass,
    dry_outputs,
    has_hooks,
    largest_error,
    require_modules,
    tensors_in,
)
from assay.trials.runnable import Runnable


def overwritable(runnable: Runnable) -> list[Any]:
    """The activation modules whose inputs nothing reads after them, and which no one else owns."""
    watched = RecordedPass(runnable)
    foreign = [*tensors_in((runnable.args, runnable.kwargs)), *runnable.model.parameters(), *runnable.model.buffers()]
    owned = {tensor.untyped_storage().data_ptr() for tensor in (*foreign, *tensors_in(watched.outputs))}

    def safe(module: Any) -> bool:
        calls = watched.calls_of(module)
        if not all(call.inputs for call in calls):
            return False
        inputs = [call.inputs[0] for call in calls]
        read = any(reader is not module for each in inputs for reader in later_readers(watched, module, each))
        return not read and not any(each.untyped_storage().data_ptr() in owned for each in inputs)

    called = {id(call.module): call.module for call in watched.calls}
    chosen = [module for module in called.values() if getattr(module, "inplace", None) is False]
    plain = [module for module in chosen if not isinstance(module, nn.modules.dropout._DropoutNd)]
    return [module for module in plain if not has_hooks(module) and safe(module)]


def later_readers(watched: Any, module: Any, tensor: Any) -> list[Any]:
    """The modules that read `tensor` after its last call by `module` began; None for what is outside all modules."""
    begin = max(call.begin for call in watched.calls_of(module) if call.inputs[0] is tensor)
    outputs = [None for each in tensors_in(watched.outputs) if each is tensor]
    return [reader for op, _, reader in watched.reads[id(tensor)] if op > begin] + outputs


def inplace_activations(runnable: Runnable) -> Runnable:
    """The model with activation functions that overwrite their inputs where nothing else reads them."""
    require_modules(runnable)
    inputs = [tensor.clone() for tensor in tensors_in((runnable.args, runnable.kwargs))]
    modules = overwritable(runnable)
    if not modules:
        raise NotApplicable("no activation module can overwrite its input")
    expected = dry_outputs(runnable)
    for module in modules:
        module.inplace = True
    actual = dry_outputs(runnable)
    if largest_error(expected, actual) or largest_error(inputs, tensors_in((runnable.args, runnable.kwargs))):
        raise NotApplicable("outputs change if activation functions overwrite their inputs")
    return runnable


register(
    Change(
        name="inplace_activations",
        summary="Let activation functions overwrite their inputs where nothing else reads them",
        codes=("M104",),
        effect=EXACT,
        apply=inplace_activations,
        parts=(*RECORDED_PASS, overwritable, later_readers),
        imports=RECORDED_PASS_IMPORTS,
    )
)
