"""Hard hooks: hooks that were registered on the modules before the analysis."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from models.registry import Inputs, case, failing

X = torch.linspace(-1, 1, 16).reshape(2, 8)


def _two_layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))


@case
def hook_changes_output() -> tuple[nn.Module, Inputs]:
    model = _two_layers()
    model[0].register_forward_hook(lambda module, args, out: torch.sigmoid(out) * 2)
    model[1].register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    return model, (X,)


@case
def hook_with_keywords() -> tuple[nn.Module, Inputs]:
    model = _two_layers()
    model[0].register_forward_pre_hook(lambda module, args, kwargs: (args, kwargs), with_kwargs=True)
    model[0].register_forward_hook(lambda module, args, kwargs, out: out - 1, with_kwargs=True)
    return model, (X,)


@case
def hook_removes_itself() -> tuple[nn.Module, Inputs]:
    model = _two_layers()

    def once(module: nn.Module, args: Any, out: Tensor) -> Tensor:
        handle.remove()
        return out * 3

    handle = model[0].register_forward_hook(once)
    return model, (X,)


@case
def backward_hooks() -> tuple[nn.Module, Inputs]:
    model = _two_layers()
    model[0].register_full_backward_hook(lambda module, before, after: None)
    model[1].register_full_backward_pre_hook(lambda module, after: None)
    model[0].weight.register_hook(lambda gradient: gradient * 2)
    return model, (X,)


@case
def hook_always_called() -> tuple[nn.Module, Inputs]:
    model = _two_layers()
    model[0].register_forward_hook(lambda module, args, out: None, always_call=True)
    return model, (X,)


@failing
def hook_raises() -> tuple[nn.Module, Inputs]:
    model = _two_layers()

    def refuse(module: nn.Module, args: Any, out: Tensor) -> None:
        raise RuntimeError("this hook always raises")

    model[1].register_forward_hook(refuse)
    return model, (X,)


@failing
def pre_hook_raises() -> tuple[nn.Module, Inputs]:
    model = _two_layers()

    def refuse(module: nn.Module, args: Any) -> None:
        raise KeyError("missing")

    model[1].register_forward_pre_hook(refuse)
    return model, (X,)
