"""Loading TorchScript and pickled modules, which runs their code: only for trusted files."""

from __future__ import annotations

import pickle
import re
import sys
from collections.abc import Mapping
from typing import Any

from assay.checkpoint.formats.recognise import PICKLE, TORCHSCRIPT
from assay.errors import ReadError, UserCodeError
from assay.messages import one_line, type_name
from assay.sources.importing import current_directory
from assay.sources.needs import is_module, need
from assay.sources.opened import Model, own_config
from assay.sources.usercode import guarded

_WITHOUT = "give the function that builds the model, or leave out --trust to read only its tensors"
_NO_CLASS = re.compile(r"Can't get attribute '([^']+)' on <module '([^']+)'")
"""The message of an unpickler; a module that runs as `__main__` has its own name there."""
WEIGHTS_ONLY = "contains weights without code: give the function that builds the model, or its config.json"


def load(path: str, kind: str) -> Model:
    """Load the model from a file of this kind, which runs the file's code."""
    try:
        with guarded(f"loading {one_line(path)}"), current_directory():
            value = _loaded(path, kind)
    except UserCodeError as error:
        missing = _missing(error.__cause__)
        if not missing:
            raise
        raise UserCodeError(f"{one_line(path)} needs {missing}: {_WITHOUT}") from error
    module = _module_in(value, path)
    return Model(module, own_config(module))


def _loaded(path: str, kind: str) -> Any:
    torch = need("torch")
    if kind == TORCHSCRIPT:
        return _callable(torch.jit.load(path, map_location="cpu"))
    if kind == PICKLE:
        with open(path, "rb") as file:
            return pickle.load(file)  # noqa: S301 - only reached when the user trusts the file
    return torch.load(path, map_location="cpu", weights_only=False)


def _callable(module: Any) -> Any:
    """`module`, whose first overload of `forward`, as in an `nn.LSTM`, is the one that a call runs."""
    if not hasattr(module, "forward") and hasattr(module, "forward__0"):
        module.__dict__["forward"] = module.forward__0
    return module


def _missing(error: BaseException | None) -> str:
    """The module or class that a pickle needs and that cannot be imported; empty if the error is another one."""
    if isinstance(error, ModuleNotFoundError):
        return f"the module {one_line(error.name)}, which cannot be imported from here"
    name = _NO_CLASS.match(str(error)) if isinstance(error, AttributeError) else None
    if name is None:
        return ""
    own = name[2] in ("__main__", getattr(sys.modules["__main__"].__spec__, "name", None))
    place = "the program that saved it (__main__)" if own else f"the module {one_line(name[2])}"
    return f"the class {one_line(name[1])} of {place}, which cannot be found"


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
