"""A guess at a model's inputs and what it rests on."""

from __future__ import annotations

import inspect
from typing import Any

from msgspec import Struct

from assay.sources.tensors import TensorSpec, texts


class Guess(Struct, frozen=True):
    """Tensors to be made, or values that the model brought along."""

    specs: tuple[TensorSpec, ...]
    source: str
    """What it rests on: `the first convolution 'conv1'`."""
    values: tuple[tuple[Any, ...], dict[str, Any]] | None = None

    @property
    def text(self) -> str:
        """The inputs in one line."""
        return texts(self.specs) or "no tensors"


def parameters(module: Any) -> dict[str, inspect.Parameter]:
    """The parameters of the module's forward by name, without `self` and the catch-alls."""
    try:
        signature = inspect.signature(module.forward)
    except (TypeError, ValueError):
        return {}
    catch_all = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {name: found for name, found in signature.parameters.items() if found.kind not in catch_all}


def required(module: Any) -> list[inspect.Parameter]:
    """The parameters of forward that have no default."""
    return [found for found in parameters(module).values() if found.default is inspect.Parameter.empty]
