"""Loading TorchScript and pickled modules, which runs their code: only for trusted files."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

from assay.checkpoint.formats.recognise import PICKLE, TORCHSCRIPT
from assay.errors import ReadError
from assay.messages import one_line, type_name
from assay.sources.importing import current_directory
from assay.sources.needs import is_module, need
from assay.sources.opened import Model, own_config
from assay.sources.usercode import guarded

WEIGHTS_ONLY = "contains weights without code: give the function that builds the model, or its config.json"


def load(path: str, kind: str) -> Model:
    """Load the model from a file of this kind, which runs the file's code."""
    torch = need("torch")
    with guarded(f"loading {one_line(path)}"), current_directory():
        if kind == TORCHSCRIPT:
            value = torch.jit.load(path, map_location="cpu")
        elif kind == PICKLE:
            with open(path, "rb") as file:
                value = pickle.load(file)  # noqa: S301 - only reached when the user trusts the file
        else:
            value = torch.load(path, map_location="cpu", weights_only=False)
    module = _module_in(value, path)
    return Model(module, own_config(module))


def _module_in(value: Any, path: str) -> Any:
    """The module that was loaded from `path`: `value` itself, or the only module in a dictionary."""
    if is_module(value):
        return value
    if isinstance(value, Mapping):
        inside = [item for item in value.values() if is_module(item)]
        if len(inside) == 1:
            return inside[0]
        if not inside:
            raise ReadError(f"{one_line(path)} {WEIGHTS_ONLY}")
    raise ReadError(f"{one_line(path)} contains an object of type {type_name(value)}: expected one torch.nn.Module")
