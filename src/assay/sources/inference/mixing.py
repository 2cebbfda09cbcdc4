"""Combining meta tensors with real ones, so that ids and lengths keep their values in a trial."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map


class Mixing(TorchDispatchMode):  # type: ignore[misc]  # torch is not read by the type checker
    """A mode in which an op that gets one meta tensor gets all its tensors on the meta device.

    If Python reads the value of a meta scalar, it gets a made-up one: True or 1, because masks are mostly true.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if any(isinstance(leaf, Tensor) and leaf.is_meta for leaf in tree_leaves((args, kwargs))):
            if func is torch.ops.aten._local_scalar_dense.default:
                return _made_up(args[0].dtype)
            args, kwargs = tree_map(_to_meta, (args, kwargs))
            if kwargs.get("device") is not None:
                kwargs["device"] = torch.device("meta")
        return func(*args, **kwargs)


def _to_meta(value: Any) -> Any:
    return value.to("meta") if isinstance(value, Tensor) else value


def _made_up(dtype: torch.dtype) -> bool | int | float:
    if dtype is torch.bool:
        return True
    return 1.0 if dtype.is_floating_point else 1
