"""Looking into a live model by path: what a document does not hold. Nothing is run, nothing is changed."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from assay.document.inspection import Attribute, ForwardCall, SourceCode, TensorDetail
from assay.errors import ReadError
from assay.forward_stats.call_list import recorded
from assay.inspection import attributes, recorded_calls
from assay.inspection.code import source_of
from assay.inspection.detail import detail
from assay.inspection.writing import stored
from assay.sources.holders import module_at


class LiveInspector:
    """Answers about `model`, a module or an object that holds several, by the path of a module."""

    def __init__(self, model: object) -> None:
        self._model = model
        self._origins = recorded_calls.Origins(model)

    def source(self, path: str) -> SourceCode | None:
        """The source code of the module's class; a `ReadError` says why where there is none."""
        return source_of(self._at(path))

    def attributes(self, path: str) -> list[Attribute]:
        """All attributes of the module."""
        found = self._at(path)
        return attributes.of_module(found) if isinstance(found, nn.Module) else attributes.of_holder(found)

    def tensor(self, path: str, name: str) -> TensorDetail:
        """The values of one of its tensors, summed up."""
        found = self._at(path)
        held = stored(found)
        if isinstance(found, nn.Module):
            held = {**held, **found._buffers, **found._parameters}
        value = held.get(name)
        if not isinstance(value, torch.Tensor):
            raise ReadError(f"{path or 'the root'} has no tensor {name}")
        return detail(value)

    def forward_calls(self, path: str) -> list[ForwardCall]:
        """Every recorded call of the module, newest last."""
        found = self._at(path)
        calls = recorded(found) if isinstance(found, nn.Module) else []
        return [recorded_calls.as_row(call, self._origins.of(call)) for call in calls]

    def _at(self, path: str) -> Any:
        """The module at `path`, by any of its names; the model itself at the empty path."""
        found = self._model if not path else module_at(self._model, path)
        if found is None:
            raise ReadError(f"the model has no module {path}")
        return found
