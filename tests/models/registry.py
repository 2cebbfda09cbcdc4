"""Where hard cases are listed: each is a function that makes a model and its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

Inputs = tuple[Any, ...] | dict[str, Any]
"""A tuple is passed by position, a dict by keyword."""
Make = Callable[[], tuple[nn.Module, Inputs]]

CASES: dict[str, Make] = {}
"""Models whose forward pass ends."""
FAILING: dict[str, Make] = {}
"""Models whose forward pass raises."""


def case(make: Make) -> Make:
    """List `make` under its name as a model that runs."""
    return _listed(CASES, make)


def failing(make: Make) -> Make:
    """List `make` under its name as a model whose forward pass raises."""
    return _listed(FAILING, make)


def call(model: nn.Module, inputs: Inputs) -> Any:
    """What the model returns for `inputs`."""
    return model(**inputs) if isinstance(inputs, dict) else model(*inputs)


def _listed(cases: dict[str, Make], make: Make) -> Make:
    if make.__name__ in CASES or make.__name__ in FAILING:
        raise ValueError(f"two hard cases are called {make.__name__}")
    cases[make.__name__] = make
    return make
