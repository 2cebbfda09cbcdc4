"""Quantized layers: their packed weights have the shapes of the file's and no values, and their operators are run."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from assay.messages import one_line
from assay.sources.torchscript.refusal import refuse
from assay.sources.torchscript.tensor_ops import TensorOps
from assay.sources.torchscript.work import check_quantized, tensors_of

MAX_PACKED_BYTES = 64 << 20
"""Limit, in bytes, for the packed weights of different shapes, which take memory because they cannot be on meta."""

_NAMES = """
linear linear_relu linear_dynamic linear_relu_dynamic conv1d conv1d_relu conv2d conv2d_relu conv3d conv3d_relu
conv_transpose1d conv_transpose2d conv_transpose3d add add_relu add_scalar mul mul_relu mul_scalar cat batch_norm1d
batch_norm2d batch_norm2d_relu batch_norm3d hardswish leaky_relu sigmoid softmax layer_norm instance_norm group_norm
elu celu prelu
"""
_OPERATORS = frozenset(_NAMES.split())
"""Operators in the namespace quantized."""
_BROADCAST = frozenset({"add", "add_relu", "mul", "mul_relu"})
_PREPACK = frozenset({"linear_prepack", "conv1d_prepack", "conv2d_prepack", "conv3d_prepack"})


@dataclass(frozen=True, eq=False)
class PackedWeights:
    """The weights of a quantized layer."""

    packed: Any
    """As torch's operators take them."""
    weight: torch.Tensor
    bias: torch.Tensor | None

    def __deepcopy__(self, memo: dict[int, Any]) -> PackedWeights:
        """No operator changes them."""
        return self


def empty(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """A quantized tensor without meaningful values."""
    if torch.empty(shape, dtype=torch.int8, device="meta").numel() > MAX_PACKED_BYTES:
        refuse(f"quantized weights of more than {MAX_PACKED_BYTES >> 20} MiB")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that quantized dtypes are deprecated
        # Takes no memory until it is written.
        return torch._empty_affine_quantized(shape, scale=1.0, zero_point=0, dtype=dtype)


def pack(ops: TensorOps, name: str, weight: Any, bias: Any = None, *settings: Any) -> PackedWeights:
    """The weights packed by the operator `name`, such as `linear_prepack`; layers of one shape share them."""
    if not isinstance(weight, torch.Tensor) or not weight.is_quantized:
        refuse(f"quantized::{one_line(name)} of a tensor that is not quantized")
    key = (name, weight.shape, weight.dtype, None if bias is None else bias.shape, repr(settings))
    if key not in ops.packed:
        if sum(shape.numel() for _, shape, *_ in ops.packed) + weight.numel() > MAX_PACKED_BYTES:
            refuse(f"quantized weights of more than {MAX_PACKED_BYTES >> 20} MiB")
        with _disable_current_modes():
            values = None if bias is None else torch.zeros(bias.shape)
            ops.packed[key] = getattr(torch.ops.quantized, name)(weight, values, *settings)
    return PackedWeights(ops.packed[key], weight, bias)


def run(ops: TensorOps, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of an operator in the namespace quantized."""
    if name in _PREPACK:
        return pack(ops, name, *args, **kwargs)
    if name not in _OPERATORS:
        refuse(f"the operator quantized::{one_line(name)}, which is not one of those that are interpreted")
    _check_work(name, args)
    plain = tuple(value.packed if isinstance(value, PackedWeights) else value for value in args)
    return ops.call(getattr(torch.ops.quantized, name), plain, kwargs)


def _check_work(name: str, args: tuple[Any, ...]) -> None:
    """Refuse an operator that would take long, or much memory: those on quantized tensors run with zeros."""
    shapes = [tensor.shape for tensor in tensors_of(args)]
    weights = next((value for value in args if isinstance(value, PackedWeights)), None)
    if weights is not None:
        elements, products = _of_layer(shapes[0], weights)
    else:
        sizes = [shape.numel() for shape in shapes]
        elements = torch.broadcast_shapes(*shapes).numel() if name in _BROADCAST else sum(sizes)
        products = elements
    check_quantized(f"quantized::{name}", elements, products)


def _of_layer(shape: torch.Size, weights: PackedWeights) -> tuple[int, int]:
    """The elements of the result of a layer, and the products that it adds up."""
    packed, size = weights.packed, weights.weight.shape
    if len(size) == 2:
        elements = shape.numel() // max(shape[-1], 1) * size[0]
        return elements, elements * size[1]
    lines = len(packed.stride()) - (len(size) - 2)  # a layer with one dimension is packed as one with two
    place = (packed.stride(), packed.padding(), packed.dilation(), packed.transpose(), packed.output_padding())
    with _disable_current_modes():
        data, weight = (torch.empty((*each[:2], *[1] * lines, *each[2:]), device="meta") for each in (shape, size))
        elements = torch.convolution(data, weight, None, *place, packed.groups()).numel()
    return elements, (shape.numel() if packed.transpose() else elements) * (size.numel() // max(size[0], 1))
