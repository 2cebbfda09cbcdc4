"""Activation functions with flat parts: which values of their output lie where the gradient is zero or nearly so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

FLAT = 1e-3
"""Outputs of a sigmoid or tanh this close to their limits are at the ends: the gradient is below 0.2 %."""
FEWEST_CLASSES = 4
"""Softmax over fewer elements is a switch, which is meant to be one-hot."""
MANY_DIMS = 4
"""Tensors with at least this many dimensions have their channels in the second; others in the last."""

Mask = Callable[[torch.Tensor, tuple[Any, ...]], torch.Tensor | None]
"""Marks the values of an op's output that are at its flat ends: (output, arguments) → booleans, or None."""


def at_ends(name: str, output: torch.Tensor, args: tuple[Any, ...]) -> torch.Tensor | None:
    """Booleans that mark the values at the flat ends of the op `name`; None for an op that has none."""
    mask = _ENDS.get(name)
    return None if mask is None else mask(output, args)


def rectifies(name: str, args: tuple[Any, ...]) -> bool:
    """Whether the op sets negative values to zero, like ReLU."""
    return name in ("relu", "relu6") or (name in ("hardtanh", "threshold") and len(args) > 1 and args[1] == 0)


def channel_dim(output: torch.Tensor) -> int | None:
    """The dimension of the channels; None for a tensor without any."""
    if output.dim() < 2:
        return None
    return 1 if output.dim() >= MANY_DIMS else output.dim() - 1


def _near_limits(low: float, high: float) -> Mask:
    return lambda output, args: (output < low + FLAT) | (output > high - FLAT)


def _clamped(output: torch.Tensor, args: tuple[Any, ...]) -> torch.Tensor:
    """Values at the limits of a hardtanh; zeros of a ReLU6 do not count."""
    low, high = (*args[1:3], -1.0, 1.0)[:2] if len(args) > 2 else (-1.0, 1.0)
    return output == high if low == 0 else (output == low) | (output == high)


def _one_hot(output: torch.Tensor, args: tuple[Any, ...]) -> torch.Tensor | None:
    dim = args[1] if len(args) > 1 and isinstance(args[1], int) else -1
    if not output.dim() or output.size(dim) < FEWEST_CLASSES:
        return None
    return output.amax(dim) > 1 - FLAT


_ENDS: dict[str, Mask] = {
    "sigmoid": _near_limits(0.0, 1.0),
    "tanh": _near_limits(-1.0, 1.0),
    "hardsigmoid": lambda output, args: (output == 0) | (output == 1),
    "hardtanh": _clamped,
    "relu6": lambda output, args: output == 6,
    "softmax": _one_hot,
    "_softmax": _one_hot,
}
"""The flat ends of each op, by its name without namespace, overload and trailing underscore."""
