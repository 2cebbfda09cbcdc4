"""Helpers that capture a function or module and sum up its cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from assay import observe
from assay.analysis.cost import KindCost, cost_of
from assay.document.rows import OpKind
from assay.recorder import kinds


class Calls(nn.Module):
    """A module whose forward calls the function with the submodules, then the inputs."""

    def __init__(self, function: Callable[..., Any], *modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(modules)

    def forward(self, *inputs: Any) -> Any:
        return self.function(*self.parts, *inputs)


def executed(model: Callable[..., Any], *inputs: Any, train: bool = False) -> list[tuple[OpKind, KindCost]]:
    """Every op of one forward pass with its cost, in order."""
    module = model if isinstance(model, nn.Module) else Calls(model)
    document = observe(module.train(train), inputs, mode="real", train=train)
    assert document.run.failure is None, document.run.failure
    costs = [cost_of(kind) for kind in document.kinds]
    return [(document.kinds[op.kind], costs[op.kind]) for op in document.ops]


def counted(model: Callable[..., Any], *inputs: Any, train: bool = False) -> KindCost:
    """The summed cost of a forward pass; fails if the cost of an op is unknown."""
    rows = executed(model, *inputs, train=train)
    unknown = [f"{kind.target}: {cost.unknown}" for kind, cost in rows if cost.macs is None]
    assert not unknown, unknown
    return added([cost for _, cost in rows])


def added(costs: list[KindCost]) -> KindCost:
    """The sum of known costs."""
    names = ("macs", "matrix_flops", "pointwise_flops", "needed_flops")
    moved = ("read_parameters", "read_activations", "written")
    return KindCost(*(sum(getattr(cost, name) for cost in costs) for name in (*names, *moved)), category="")


def only(model: Callable[..., Any], *inputs: Any, target: str) -> KindCost:
    """The cost of the single op with that target."""
    costs = [cost for kind, cost in executed(model, *inputs) if kind.target == target]
    assert len(costs) == 1, [kind.target for kind, _ in executed(model, *inputs)]
    return costs[0]


class Dispatched(TorchDispatchMode):
    """Records the ops that autograd dispatches, including those of the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: list[OpKind] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        inputs = list(kinds.tensors_in([*args, *(kwargs or {}).values()]))
        first_at = {tensor.untyped_storage()._cdata: index for index, tensor in reversed(list(enumerate(inputs)))}
        aliases = [_earlier(first_at, tensor, index) for index, tensor in enumerate(inputs)]
        outputs = [first_at.get(tensor.untyped_storage()._cdata) for tensor in kinds.tensors_in(result)]
        roles = ["activation"] * len(inputs)
        self.kinds.append(kinds.build(func, args, kwargs or {}, roles, aliases, result, outputs))
        return result


def _earlier(first_at: dict[int, int], tensor: torch.Tensor, index: int) -> int | None:
    first = first_at[tensor.untyped_storage()._cdata]
    return first if first < index else None


def trained(model: nn.Module, *inputs: torch.Tensor) -> tuple[list[OpKind], list[OpKind]]:
    """The kinds of the forward and of the backward pass of one training step; the loss is the summed output."""
    with Dispatched() as forward:
        loss = model(*inputs).sum()
    with Dispatched() as backward:
        loss.backward()
    return forward.kinds, backward.kinds
