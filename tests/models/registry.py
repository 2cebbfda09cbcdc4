"""The registry of hard cases: each is a function that returns a model and its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

Inputs = tuple[Any, ...] | dict[str, Any]
"""A tuple is passed by position, a dict by keyword."""
Make = Callable[[], tuple[nn.Module, Inputs]]

CASES: dict[str, Make] = {}
"""Models whose forward pass completes."""
FAILING: dict[str, Make] = {}
"""Models whose forward pass raises."""


def case(make: Make) -> Make:
    """Register `make` under its name as a model whose forward pass completes."""
    return _registered(CASES, make)


def failing(make: Make) -> Make:
    """Register `make` under its name as a model whose forward pass raises."""
    return _registered(FAILING, make)


def call(model: nn.Module, inputs: Inputs) -> Any:
    """The result of the model for `inputs`."""
    return model(**inputs) if isinstance(inputs, dict) else model(*inputs)


def _registered(cases: dict[str, Make], make: Make) -> Make:
    if make.__name__ in CASES or make.__name__ in FAILING:
        raise ValueError(f"there are two hard cases named {make.__name__}")
    cases[make.__name__] = make
    return make
