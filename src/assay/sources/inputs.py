"""What a model is called with: as given, from a function, from a literal, or inferred."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.errors import InputsError
from assay.messages import brief, kind_name
from assay.sources import literals
from assay.sources.inference.infer import infer
from assay.sources.named import attribute
from assay.sources.needs import is_module, is_tensor
from assay.sources.open import Opened
from assay.sources.placing import model_device, place
from assay.sources.specifier import file_function
from assay.sources.tensors import make, texts
from assay.sources.usercode import call

_WANTED = "a tensor, a tuple or list of arguments, a dict of keywords, or (args, kwargs)"


@dataclass(frozen=True)
class Inputs:
    """The arguments of one call of the model, and in one line where they came from."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    how: str
    """`given`, `my_model.py:get_inputs`, `literal 1x3x224x224:float32` or `inferred: ... from ...`."""


def find_inputs(inputs: Any, opened: Opened, *, device: str | None = None, dtype: str | None = None) -> Inputs:
    """The inputs for `opened`; None means they are inferred from what the model says about itself."""
    if opened.module is None:
        raise InputsError(f"{brief(opened.origin.location)} is a {opened.origin.kind} file: it cannot be run")
    target = "meta" if device is None and opened.weights == "meta" else device
    if inputs is None:
        return _inferred(opened, target, dtype)
    if not isinstance(inputs, str):
        args, kwargs = _split(_called(inputs), "the inputs")
        return _placed(args, kwargs, "given", target, dtype)
    named = file_function(inputs)
    if named is None:
        specs = literals.parse(inputs)
        made = make(specs, target or model_device(opened.module))
        return _placed(*made, f"literal {texts(specs)}", target, dtype)
    with attribute(named) as found:
        value = call(found, named.label) if _is_function(found) else found
    args, kwargs = _split(value, f"what {named.label} returned")
    return _placed(args, kwargs, named.location, target, dtype)


def _inferred(opened: Opened, device: str | None, dtype: str | None) -> Inputs:
    guess = infer(opened.module, opened.config)
    args, kwargs = guess.values or make(guess.specs, device or model_device(opened.module))
    args, kwargs = _split((args, kwargs), "the inferred inputs")
    return _placed(args, kwargs, f"inferred: {guess.text} from {brief(guess.source)}", device, dtype)


def _placed(args: Any, kwargs: Any, how: str, device: str | None, dtype: str | None) -> Inputs:
    return Inputs(place(tuple(args), device, dtype), place(dict(kwargs), device, dtype), how)


def _is_function(value: Any) -> bool:
    return callable(value) and not is_tensor(value) and not is_module(value)


def _called(value: Any) -> Any:
    """What a callable makes, or the value itself."""
    if not _is_function(value):
        return value
    return call(value, f"{getattr(value, '__qualname__', kind_name(value))}()")


def _split(value: Any, what: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments, in whichever way they were put."""
    if is_tensor(value):
        return (value,), {}
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], (tuple, list)) and _keywords(value[1]):
        return tuple(value[0]), dict(value[1])
    if isinstance(value, (tuple, list)):
        return tuple(value), {}
    if _keywords(value):
        return (), dict(value)
    raise InputsError(f"{what} cannot be arguments, being {kind_name(value)}: give {_WANTED}")


def _keywords(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)
