"""A guess at a model's inputs and its source."""

from __future__ import annotations

import inspect
from typing import Any

from msgspec import Struct, structs

from assay.sources.tensors import TensorSpec, literal_text


class Guess(Struct, frozen=True):
    """Tensors to create, or values stored in the model."""

    specs: tuple[TensorSpec, ...]
    source: str
    """Where the guess comes from: `the first convolution 'conv1'`."""
    values: tuple[tuple[Any, ...], dict[str, Any]] | None = None
    flops: int = 0
    """Operations of a pass, as counted in a trial; 0 if there was none."""
    placeholders: int = 0
    """Leading tokens of the text up to the last one that stands for an image, a video or sound."""

    @property
    def text(self) -> str:
        """The inputs in one line."""
        return literal_text(self.specs) or "no tensors"


def with_floats(guess: Guess, floats: str) -> Guess:
    """`guess` with its float32 tensors in the model's own dtype, `floats`."""
    specs = (structs.replace(spec, dtype=floats) if spec.dtype == "float32" else spec for spec in guess.specs)
    return structs.replace(guess, specs=tuple(specs))


def parameters(module: Any) -> dict[str, inspect.Parameter]:
    """The parameters of the module's forward by name, without `self`, `*args` and `**kwargs`."""
    try:
        signature = inspect.signature(module.forward)
    except (TypeError, ValueError):
        return {}
    catch_all = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {name: parameter for name, parameter in signature.parameters.items() if parameter.kind not in catch_all}


def required(module: Any) -> list[inspect.Parameter]:
    """The parameters of forward without a default."""
    return [parameter for parameter in parameters(module).values() if parameter.default is inspect.Parameter.empty]
