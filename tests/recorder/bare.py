"""An independent record of ops: a minimal dispatch mode."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Bare(TorchDispatchMode):
    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.targets.append(str(func))
        return func(*args, **(kwargs or {}))


def bare_targets(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """The ops of a plain forward pass in eval mode, below autograd."""
    model.eval()
    counter = Bare()
    with torch.no_grad():
        guard = torch._C._AutoDispatchBelowAutograd()
        try:
            with counter:
                model(*args, **kwargs)
        finally:
            del guard
    return counter.targets


def split(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inputs of a hard case as positional and keyword arguments."""
    return ((), inputs) if isinstance(inputs, dict) else (tuple(inputs), {})


def targets(result: Any) -> list[str]:
    """The ops of a pass or document in order."""
    return [result.kinds[op.kind].target for op in result.ops]
