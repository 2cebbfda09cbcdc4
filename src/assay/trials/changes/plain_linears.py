"""The Linear layers of a model that can be replaced by another way to compute the same product."""

from __future__ import annotations

from typing import Any

from torch import nn

from assay.trials.change import NotApplicable
from assay.trials.changes.dry_pass import RECORDED_PASS, RecordedPass, has_hooks, require_modules
from assay.trials.runnable import Runnable


def linear_layers(runnable: Runnable) -> list[Any]:
    """The Linear layers that ran, without hooks, and whose weights only their owners read."""
    require_modules(runnable)
    watched = RecordedPass(runnable)
    called = {id(call.module) for call in watched.calls}

    def owned(layer: Any) -> bool:
        readers = {module for each in layer.parameters() for module in watched.readers(each)} - {layer}
        return all(module is not None and layer.weight in set(module.parameters(False)) for module in readers)

    layers = [each for each in runnable.model.modules() if type(each) is nn.Linear and id(each) in called]
    layers = [layer for layer in layers if not has_hooks(layer) and owned(layer)]
    if not layers:
        raise NotApplicable("the model runs no plain nn.Linear layer")
    return layers


def replace_modules(model: Any, replacements: dict[Any, Any]) -> None:
    """Put the new modules where the old ones were, under all of their names."""
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if child in replacements:
                parent._modules[name] = replacements[child]


LINEARS = (*RECORDED_PASS, linear_layers, replace_modules)
"""The parts of changes that use these functions."""
