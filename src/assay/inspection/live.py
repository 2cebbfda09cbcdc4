"""Details of a live model's modules, by path, that a document does not contain. Nothing is run or changed."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from assay.document.inspection import Attribute, ForwardCall, SourceCode, TensorDetail
from assay.errors import ReadError
from assay.forward_stats.call_list import calls_of
from assay.inspection import attributes, recorded_calls
from assay.inspection.code import source_of
from assay.inspection.detail import detail
from assay.inspection.writing import stored
from assay.sources.holders import module_at


class LiveInspector:
    """Gives details of the modules of `model`, which is a module or an object that contains modules."""

    def __init__(self, model: object) -> None:
        self._model = model
        self._first_bad = recorded_calls.FirstBadModules(model)

    def source(self, path: str) -> SourceCode | None:
        """The source code of the module's class; a `ReadError` with the reason if there is none."""
        return source_of(self._at(path))

    def attributes(self, path: str) -> list[Attribute]:
        """All attributes of the module."""
        owner = self._at(path)
        return attributes.of_module(owner) if isinstance(owner, nn.Module) else attributes.of_holder(owner)

    def tensor(self, path: str, name: str) -> TensorDetail:
        """Statistics of the values of the module's tensor `name`."""
        owner = self._at(path)
        values = stored(owner)
        if isinstance(owner, nn.Module):
            values = {**values, **owner._buffers, **owner._parameters}
        value = values.get(name)
        if not isinstance(value, torch.Tensor):
            raise ReadError(f"{path or 'the root'} has no tensor {name!r}")
        return detail(value)

    def forward_calls(self, path: str) -> list[ForwardCall]:
        """All recorded calls of the module, newest last."""
        owner = self._at(path)
        calls = calls_of(owner) if isinstance(owner, nn.Module) else []
        return [recorded_calls.as_row(call, self._first_bad.of(call)) for call in calls]

    def _at(self, path: str) -> Any:
        """The module at `path`, which may be any of its paths; the model itself for the empty path."""
        module = self._model if not path else module_at(self._model, path)
        if module is None:
            raise ReadError(f"the model has no module {path!r}")
        return module
