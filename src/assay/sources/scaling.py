"""Inputs at another batch size."""

from __future__ import annotations

from typing import Any

from assay.errors import InputsError
from assay.sources.inputs import Inputs
from assay.sources.needs import need


def batch_of(inputs: Inputs) -> int:
    """The batch of the inputs: the first dimension of their first tensor that has one."""
    for tensor in _tensors(inputs):
        if tensor.dim():
            return int(tensor.shape[0])
    raise InputsError("none of the inputs has a dimension to scale: a batch of another size cannot be made")


def scaled(inputs: Inputs, batch: int) -> Inputs:
    """The inputs with `batch` in place of their batch: every tensor whose first dimension is it; values repeat."""
    if batch < 1:
        raise InputsError(f"a batch of {batch} cannot be made: give 1 or more")
    before = batch_of(inputs)
    torch = need("torch")

    def resize(tensor: Any) -> Any:
        if not tensor.dim() or tensor.shape[0] != before or not before:
            return tensor
        return tensor[torch.arange(batch, device=_index_device(tensor)) % before]

    args, kwargs = torch.utils._pytree.tree_map_only(torch.Tensor, resize, (inputs.args, inputs.kwargs))
    return Inputs(args, kwargs, f"{inputs.how}, batch {batch}")


def _index_device(tensor: Any) -> Any:
    """Without data an index on the CPU will do, and is checked there."""
    return "cpu" if tensor.is_meta else tensor.device


def _tensors(inputs: Inputs) -> list[Any]:
    torch = need("torch")
    leaves = torch.utils._pytree.tree_flatten((inputs.args, inputs.kwargs))[0]
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
