"""What a function or module costs: captured as a user would, then added up."""

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
    """A module whose forward is the function, given its submodules first."""

    def __init__(self, function: Callable[..., Any], *modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(modules)

    def forward(self, *inputs: Any) -> Any:
        return self.function(*self.parts, *inputs)


def executed(model: Callable[..., Any], *inputs: Any, train: bool = False) -> list[tuple[OpKind, KindCost]]:
    """Every operation of one forward pass with its cost, in order."""
    module = model if isinstance(model, nn.Module) else Calls(model)
    document = observe(module.train(train), inputs, mode="real", train=train)
    assert document.run.failure is None, document.run.failure
    costs = [cost_of(kind) for kind in document.kinds]
    return [(document.kinds[op.kind], costs[op.kind]) for op in document.ops]


def counted(model: Callable[..., Any], *inputs: Any, train: bool = False) -> KindCost:
    """The sums over a forward pass; it fails where an operation is unknown."""
    rows = executed(model, *inputs, train=train)
    unknown = [f"{kind.target}: {cost.unknown}" for kind, cost in rows if cost.macs is None]
    assert not unknown, unknown
    return added([cost for _, cost in rows])


def added(costs: list[KindCost]) -> KindCost:
    """The sums of known costs."""
    names = ("macs", "matrix_flops", "pointwise_flops", "needed_flops")
    moved = ("read_parameters", "read_activations", "written")
    return KindCost(*(sum(getattr(cost, name) for cost in costs) for name in (*names, *moved)), category="")


def only(model: Callable[..., Any], *inputs: Any, target: str) -> KindCost:
    """The cost of the one operation with that target."""
    found = [cost for kind, cost in executed(model, *inputs) if kind.target == target]
    assert len(found) == 1, [kind.target for kind, _ in executed(model, *inputs)]
    return found[0]


class Dispatched(TorchDispatchMode):
    """Operations as autograd sends them on, backward ones included."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: list[OpKind] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = list(kinds.tensors_in([*args, *(kwargs or {}).values()]))
        at = {tensor.untyped_storage()._cdata: place for place, tensor in reversed(list(enumerate(given)))}
        aliases = [_earlier(at, tensor, place) for place, tensor in enumerate(given)]
        made = [at.get(tensor.untyped_storage()._cdata) for tensor in kinds.tensors_in(result)]
        roles = ["activation"] * len(given)
        self.kinds.append(kinds.build(func, args, kwargs or {}, roles, aliases, result, made))
        return result


def _earlier(at: dict[int, int], tensor: torch.Tensor, place: int) -> int | None:
    first = at[tensor.untyped_storage()._cdata]
    return first if first < place else None


def trained(model: nn.Module, *inputs: torch.Tensor) -> tuple[list[OpKind], list[OpKind]]:
    """(forward kinds, backward kinds) of one training step of the summed output."""
    with Dispatched() as forward:
        loss = model(*inputs).sum()
    with Dispatched() as backward:
        loss.backward()
    return forward.kinds, backward.kinds
