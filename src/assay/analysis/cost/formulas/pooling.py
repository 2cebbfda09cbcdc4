"""Pooling: one op per element of each window."""

from __future__ import annotations

from math import prod

from assay.analysis.cost.categories import POOLING
from assay.analysis.cost.reading import attribute, first, numel, operand, per_dimension, result, result_numel
from assay.analysis.cost.registry import register
from assay.analysis.cost.rules import free, per_operand
from assay.analysis.cost.work import Uncountable, Work
from assay.document.rows import OpKind, TensorType

_RANKS = {"1d": 1, "2d": 2, "3d": 3}


def _rank(kind: OpKind) -> int:
    """The number of dimensions pooled over, from the name: two for `max_pool2d`."""
    dimensions = next((rank for word, rank in _RANKS.items() if word in kind.target), None)
    if dimensions is None:
        raise Uncountable(f"the number of dimensions that {kind.target} pools over is unknown")
    return dimensions


def _window(kind: OpKind) -> int:
    return prod(per_dimension(attribute(kind, "kernel_size"), _rank(kind)))


@register(
    "max_pool1d max_pool2d max_pool3d max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices "
    "mkldnn_max_pool2d mkldnn_max_pool3d quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d "
    "quantized::max_pool1d quantized::max_pool2d fractional_max_pool2d fractional_max_pool3d avg_pool1d avg_pool2d "
    "avg_pool3d",
    category=POOLING,
)
def pool(kind: OpKind) -> Work:
    """One comparison or addition per element of each window."""
    return Work(pointwise=result_numel(kind) * _window(kind))


def _adaptive_steps(wide: TensorType, narrow: TensorType, rank: int) -> int:
    """Elements of all windows: along each dimension, window i runs from floor(i*n/m) to ceil((i+1)*n/m)."""
    sizes = zip(wide.shape[-rank:], narrow.shape[-rank:], strict=True)
    along = [sum(-(-(i + 1) * n // m) - i * n // m for i in range(m)) for n, m in sizes]
    return prod(narrow.shape[:-rank]) * prod(along)


@register(
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d "
    "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d mkldnn_adaptive_avg_pool2d",
    category=POOLING,
)
def adaptive(kind: OpKind) -> Work:
    """One op per element of each window; the windows follow from input and output size."""
    return Work(pointwise=_adaptive_steps(first(kind), result(kind), _rank(kind)))


@register(
    "adaptive_avg_pool3d_backward _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward "
    "mkldnn_adaptive_avg_pool2d_backward",
    category=POOLING,
)
def adaptive_backward(kind: OpKind) -> Work:
    """One op per element of each window, over which the gradient is distributed."""
    return Work(pointwise=_adaptive_steps(operand(kind, "self"), operand(kind, "grad_output"), _rank(kind)))


@register("avg_pool2d_backward avg_pool3d_backward", category=POOLING)
def average_backward(kind: OpKind) -> Work:
    """One op per element of each window, over which the gradient is distributed."""
    return Work(pointwise=numel(operand(kind, "grad_output")) * _window(kind))


# Each gradient element is added at the position of its window's maximum.
register(
    "max_pool2d_with_indices_backward max_pool3d_with_indices_backward adaptive_max_pool2d_backward "
    "adaptive_max_pool3d_backward fractional_max_pool2d_backward fractional_max_pool3d_backward max_pool2d_backward "
    "mkldnn_max_pool2d_backward mkldnn_max_pool3d_backward",
    category=POOLING,
)(per_operand(1, "grad_output"))
register("max_unpool2d max_unpool3d", category=POOLING)(free)
