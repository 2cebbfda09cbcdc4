"""Pooling: an operation an element of every window."""

from __future__ import annotations

from math import prod

from assay.analysis.cost.categories import POOLING
from assay.analysis.cost.reading import attribute, first, numel, operand, result, result_numel, spread
from assay.analysis.cost.registry import register
from assay.analysis.cost.rules import free, per_operand
from assay.analysis.cost.work import Uncountable, Work
from assay.document.rows import OpKind, TensorType

_RANKS = {"1d": 1, "2d": 2, "3d": 3}


def _rank(kind: OpKind) -> int:
    """Dimensions pooled over, by the name: `max_pool2d` has two."""
    found = next((rank for word, rank in _RANKS.items() if word in kind.target), None)
    if found is None:
        raise Uncountable(f"{kind.target} does not say over how many dimensions it pools")
    return found


def _window(kind: OpKind) -> int:
    return prod(spread(attribute(kind, "kernel_size"), _rank(kind)))


@register(
    "max_pool1d max_pool2d max_pool3d max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices "
    "mkldnn_max_pool2d mkldnn_max_pool3d quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d "
    "quantized::max_pool1d quantized::max_pool2d fractional_max_pool2d fractional_max_pool3d avg_pool1d avg_pool2d "
    "avg_pool3d",
    category=POOLING,
)
def pool(kind: OpKind) -> Work:
    """Every window's elements compared or added."""
    return Work(pointwise=result_numel(kind) * _window(kind))


def _adaptive_steps(wide: TensorType, narrow: TensorType, rank: int) -> int:
    """Window elements in all: along each dimension, window i runs from floor(i*n/m) to ceil((i+1)*n/m)."""
    sizes = zip(wide.shape[-rank:], narrow.shape[-rank:], strict=True)
    along = [sum(-(-(i + 1) * n // m) - i * n // m for i in range(m)) for n, m in sizes]
    return prod(narrow.shape[:-rank]) * prod(along)


@register(
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d "
    "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d mkldnn_adaptive_avg_pool2d",
    category=POOLING,
)
def adaptive(kind: OpKind) -> Work:
    """The windows that the two sizes imply."""
    return Work(pointwise=_adaptive_steps(first(kind), result(kind), _rank(kind)))


@register(
    "adaptive_avg_pool3d_backward _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward "
    "mkldnn_adaptive_avg_pool2d_backward",
    category=POOLING,
)
def adaptive_backward(kind: OpKind) -> Work:
    """Each gradient spread over its window."""
    return Work(pointwise=_adaptive_steps(operand(kind, "self"), operand(kind, "grad_output"), _rank(kind)))


@register("avg_pool2d_backward avg_pool3d_backward", category=POOLING)
def average_backward(kind: OpKind) -> Work:
    """Each gradient spread over its window."""
    return Work(pointwise=numel(operand(kind, "grad_output")) * _window(kind))


# Each gradient is added where its largest element was.
register(
    "max_pool2d_with_indices_backward max_pool3d_with_indices_backward adaptive_max_pool2d_backward "
    "adaptive_max_pool3d_backward fractional_max_pool2d_backward fractional_max_pool3d_backward max_pool2d_backward "
    "mkldnn_max_pool2d_backward mkldnn_max_pool3d_backward",
    category=POOLING,
)(per_operand(1, "grad_output"))
register("max_unpool2d max_unpool3d", category=POOLING)(free)
