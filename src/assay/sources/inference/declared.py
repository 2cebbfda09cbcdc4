"""Inputs that a model carries along as an example of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from assay.errors import UserCodeError
from assay.sources.inference.guess import Guess
from assay.sources.needs import is_tensor
from assay.sources.tensors import TensorSpec, dtype_name
from assay.sources.usercode import guarded

_ATTRIBUTES = ("example_input_array", "dummy_inputs")
_SETTINGS = ("pretrained_cfg", "default_cfg")
"""Where image model libraries keep the input size a model was trained with."""


def declared(module: Any, config: Any | None) -> Guess | None:
    """The example among the module's attributes, if it has one.

    Every transformers model has `dummy_inputs`, mostly three rows of token ids whatever the model takes:
    there the config knows better.
    """
    if config is None:
        for name in _ATTRIBUTES:
            guess = _example(name, _read(module, name))
            if guess is not None:
                return guess
    return next(_from_settings(module), None)


def _read(module: Any, name: str) -> Any:
    """The attribute, None where there is none or its property raises."""
    try:
        with guarded(name):
            return getattr(module, name, None)
    except UserCodeError:
        return None


def _example(name: str, value: Any) -> Guess | None:
    if is_tensor(value):
        return Guess(_specs([(None, value)]), name, ((value,), {}))
    if isinstance(value, Mapping) and value and all(isinstance(key, str) for key in value):
        return Guess(_specs(value.items()), name, ((), dict(value)))
    if isinstance(value, (tuple, list)) and value:
        if len(value) == 2 and isinstance(value[0], (tuple, list)) and isinstance(value[1], Mapping):
            pairs = [*((None, item) for item in value[0]), *value[1].items()]
            return Guess(_specs(pairs), name, (tuple(value[0]), dict(value[1])))
        return Guess(_specs((None, item) for item in value), name, (tuple(value), {}))
    return None


def _specs(pairs: Any) -> tuple[TensorSpec, ...]:
    """What the tensors among the values look like."""
    return tuple(
        TensorSpec(tuple(value.shape), dtype_name(str(value.dtype)) or str(value.dtype), name)
        for name, value in pairs
        if is_tensor(value)
    )


def _from_settings(module: Any) -> Iterator[Guess]:
    for name in _SETTINGS:
        settings = vars(module).get(name)
        size = settings.get("input_size") if isinstance(settings, Mapping) else None
        if isinstance(size, (tuple, list)) and all(isinstance(dim, int) for dim in size):
            yield Guess((TensorSpec((1, *size)),), f"{name}['input_size']")
