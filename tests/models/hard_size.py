"""Hard sizes: very deep trees and very many modules."""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn

from models.registry import Inputs, case

X = torch.linspace(-1, 1, 16).reshape(2, 8)
LEVELS = 300
MODULES = 2000


class Level(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + 1


@case
def deep_nesting() -> tuple[nn.Module, Inputs]:
    # Each level adds three frames in torch, so the model needs a higher limit than Python's default.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 10_000))
    model: nn.Module = nn.Linear(8, 8)
    for _ in range(LEVELS):
        model = Level(model)
    return model, (X,)


@case
def many_modules() -> tuple[nn.Module, Inputs]:
    return nn.Sequential(*(nn.Identity() if i % 4 else nn.Linear(8, 8) for i in range(MODULES))), (X,)


@case
def single_layer() -> tuple[nn.Module, Inputs]:
    return nn.Linear(8, 8), (X,)


@case
def odd_names() -> tuple[nn.Module, Inputs]:
    model = nn.Module()
    layers = nn.ModuleDict({"a b": nn.Linear(8, 8), "ümlaut": nn.ReLU(), "[red]x[/]": nn.Linear(8, 8)})
    for name, layer in layers.items():
        model.add_module(name, layer)
    model.add_module("run", nn.Sequential(*layers.values()))
    return _Runs(model), (X,)


class _Runs(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner.get_submodule("run")(x)
