"""TorchScript and pickled modules: files whose reading runs their code, opened only when trusted."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Any

from assay.checkpoint.formats.recognise import PICKLE, TORCHSCRIPT
from assay.errors import ReadError
from assay.messages import brief, kind_name
from assay.sources.importing import current_directory
from assay.sources.needs import is_module, need
from assay.sources.usercode import guarded

WEIGHTS_ONLY = "holds weights without code: point at the function that builds the model, or its config.json"


def load(path: str, kind: str) -> Any:
    """The module in a file of this recognised kind; its code runs."""
    torch = need("torch")
    with guarded(f"loading {brief(path)}"), current_directory():
        value = _LOADERS.get(kind, _saved)(torch, path)
    return _module_in(value, path)


def _module_in(value: Any, path: str) -> Any:
    """The module that a file held: alone, or as the only one in a dictionary with other things."""
    if is_module(value):
        return value
    if isinstance(value, Mapping):
        inside = [item for item in value.values() if is_module(item)]
        if len(inside) == 1:
            return inside[0]
        if not inside:
            raise ReadError(f"{brief(path)} {WEIGHTS_ONLY}")
    raise ReadError(f"{brief(path)} holds a {kind_name(value)}; expected one torch.nn.Module")


def _script(torch: Any, path: str) -> Any:
    return torch.jit.load(path, map_location="cpu")


def _saved(torch: Any, path: str) -> Any:
    return torch.load(path, map_location="cpu", weights_only=False)


def _pickled(torch: Any, path: str) -> Any:
    with open(path, "rb") as file:
        return pickle.load(file)  # noqa: S301 - only reached when the user trusts the file


_LOADERS: dict[str, Callable[[Any, str], Any]] = {TORCHSCRIPT: _script, PICKLE: _pickled}
