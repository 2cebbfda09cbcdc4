"""Finds the operator that a path such as `torch.add` or `ops.prim.device` means for given arguments."""

from __future__ import annotations

from typing import Any

import torch

from assay.messages import one_line
from assay.sources.torchscript import prim, quantized, scalars
from assay.sources.torchscript.fused import FUSED
from assay.sources.torchscript.refusal import refuse
from assay.sources.torchscript.tensor_ops import TensorOps


def apply(ops: TensorOps, path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of an operator: of one on plain values if the arguments are, else of one on tensors."""
    space, _, name = path.removeprefix("ops.").partition(".")
    if space == "prim" and name in prim.PRIM:
        return prim.PRIM[name](ops, *args, **kwargs)
    if space == "quantized":
        return quantized.run(ops, name, args, kwargs)
    if space not in ("torch", "aten"):
        refuse(f"the operator {one_line(space)}::{one_line(name)}, which is not one of those that are interpreted")
    if name in scalars.ALWAYS:
        return scalars.ALWAYS[name](*args, **kwargs)
    if args and isinstance(args[0], (list, tuple, dict, str)) and name in scalars.CONTAINERS:
        return scalars.CONTAINERS[name](*args, **kwargs)
    if name in scalars.NUMBERS and not any(isinstance(each, torch.Tensor) for each in args):
        return scalars.NUMBERS[name](*args, **kwargs)
    if name in FUSED:
        return FUSED[name](ops, *args, **kwargs)
    return ops.run(name, args, kwargs)
