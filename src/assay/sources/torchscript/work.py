"""How much work an operator may do: what is computed with values, what only on shapes, and what is refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from assay.checkpoint.pickle.values import MAX_DIMENSIONS
from assay.sources.torchscript.refusal import MAX_OUTPUTS, exceed, refuse

END = (1 << 63) - 1
"""What TorchScript writes for the end of a slice that has none."""
LARGEST_KNOWN = 1 << 20
"""Results with more elements are computed as shapes only, also if all values are known."""
_SMALL_INPUTS, _SMALL_RESULT, _SMALL_NUMBER = 1 << 12, 1 << 16, 1 << 16
"""The most elements and the largest number with which any operator computes values, whatever work that is."""
_LONGEST_NUMBERS = 2 * MAX_DIMENSIONS
"""Numbers in a list: two per dimension, as for padding."""
_LONGEST_TENSORS = 200
_LONGEST_PARAMETERS = 2000
"""Tensors in a list, and parameters of the layers of a recurrent network."""

_LINEAR = """
__and__ __lshift__ __or__ __rshift__ __xor__ _shape_as_tensor _to_copy _unique _unique2 _unsafe_index _unsafe_view
abs add alias all amax amin aminmax any arange argmax argmin argsort argwhere as_strided atleast_1d atleast_2d
atleast_3d bincount bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor
broadcast_tensors broadcast_to bucketize cat ceil chunk clamp clamp_max clamp_min clip clone column_stack complex
concat concatenate constant_pad_nd contiguous copy copysign cos count_nonzero cummax cummin cumprod cumsum dequantize
detach diag diag_embed diagonal div divide dstack embedding empty_like eq equal exp expand expand_as fill
fill_diagonal flatten flip floor floor_divide fmax fmin fmod full_like gather ge greater greater_equal gt hstack
index index_add index_copy index_fill index_put index_select isfinite isinf isnan le less less_equal log log10
log1p log2 logical_and logical_not logical_or logical_xor lt masked_fill masked_scatter masked_select max maximum
mean meshgrid min minimum moveaxis movedim mul multiply narrow ne neg negative new_empty new_full new_ones new_zeros
nonzero not_equal one_hot ones_like outer permute pow prod quantize_per_tensor ravel reciprocal relu remainder repeat
repeat_interleave reshape reshape_as roll round rsub scatter scatter_add searchsorted select sigmoid sign sin slice
sort split split_with_sizes sqrt square squeeze stack sub subtract sum swapaxes swapdims t take take_along_dim
tensor_split tile to topk transpose tril triu true_divide trunc type_as unbind unflatten unique_consecutive
unsafe_chunk unsafe_split unsqueeze view view_as vstack where zero zeros_like
"""
LINEAR = frozenset(_LINEAR.split())
"""Operators whose work grows with their elements only; each stands for its variant in place, too."""
_LARGEST_QUANTIZED, _MOST_PRODUCTS = 1 << 24, 20_000_000_000
"""Results and products of an operator on quantized tensors; the largest layer of a VGG-16 has 1.8 billion."""
_JOIN_NAMES = "cat column_stack concat concatenate dstack hstack pad_sequence row_stack stack vstack"
_JOINS = frozenset(_JOIN_NAMES.split())
RECURRENT = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu", "ctc_loss"})


def check_lists(name: str, arguments: Iterable[Any]) -> None:
    """Refuse lists that are longer than any model's: some operators take quadratic time for them."""
    for value in arguments:
        if isinstance(value, (list, tuple)) and len(value) > _longest(name, value):
            exceed(f"torch.{name} with a list of {len(value):,} items")


def _longest(name: str, items: Sequence[Any]) -> int:
    if not any(isinstance(item, torch.Tensor) for item in items[:1]):
        return MAX_OUTPUTS if "split" in name else _LONGEST_NUMBERS
    if name in RECURRENT:
        return _LONGEST_PARAMETERS
    return MAX_OUTPUTS if name in _JOINS else _LONGEST_TENSORS


def may_compute(name: str, arguments: Any, tensors: Sequence[torch.Tensor], elements: int) -> bool:
    """Whether an operator on known values may compute its result, which has so many elements."""
    if name in LINEAR or name.removesuffix("_") in LINEAR:
        return elements <= LARGEST_KNOWN
    return (
        sum(tensor.numel() for tensor in tensors) <= _SMALL_INPUTS
        and elements <= _SMALL_RESULT
        and _largest_number(arguments, tensors) <= _SMALL_NUMBER
        and "polynomial" not in name  # takes as many steps as its degree, which may be a value of any type
    )


def check_unsized(name: str, arguments: Any, tensors: Sequence[torch.Tensor]) -> None:
    """Refuse an operator on known values whose result may be large, by its largest number and value."""
    inputs = sum(tensor.numel() for tensor in tensors)
    most = inputs * max(1, _largest_number(arguments, tensors))
    if most > LARGEST_KNOWN or not may_compute(name, arguments, tensors, inputs):
        refuse(f"torch.{name} with a result of unknown size")


def check_quantized(name: str, elements: int, products: int) -> None:
    """Refuse an operator on quantized tensors, which runs with zeros, if its result or its work is large."""
    if elements > _LARGEST_QUANTIZED or products > _MOST_PRODUCTS:
        exceed(f"{name} with {elements:,} results of {products:,} products")


def _largest_number(arguments: Any, tensors: Sequence[torch.Tensor]) -> int:
    """The largest integer among the arguments and the values of their tensors."""
    numbers = [abs(value) for value in leaves_of(arguments) if type(value) is int and value != END]
    values = [
        int(each.abs().max())
        for each in tensors
        if each.numel() and not (each.is_floating_point() or each.is_complex() or each.dtype is torch.bool)
    ]
    return max((0, *numbers, *values))


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in nested containers."""
    return (leaf for leaf in leaves_of(value) if isinstance(leaf, torch.Tensor))


def leaves_of(value: Any) -> Iterator[Any]:
    """The values in nested containers."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves_of(item)
    elif isinstance(value, dict):
        yield from leaves_of(list(value.values()))
    else:
        yield value
