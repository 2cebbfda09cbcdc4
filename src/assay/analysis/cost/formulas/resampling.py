"""Resampling: each output element is a weighted sum of taps, one product per tap and the additions between them."""

from __future__ import annotations

from math import ceil

from assay.analysis.cost.bytes import gathered
from assay.analysis.cost.categories import RESAMPLING
from assay.analysis.cost.reading import attribute, first, numel, operand, result, result_numel
from assay.analysis.cost.registry import register
from assay.analysis.cost.rules import free, per_operand, per_result
from assay.analysis.cost.work import Work
from assay.document.rows import OpKind

TAPS = {
    "upsample_linear1d": 2,
    "upsample_bilinear2d": 4,
    "upsample_trilinear3d": 8,
    "upsample_bicubic2d": 16,
}
ANTIALIASED = {"_upsample_bilinear2d_aa": 2, "_upsample_bicubic2d_aa": 4, "_upsample_lanczos2d_aa": 6}
"""Taps along one dimension if the size is unchanged; downsampling needs more."""
NEAREST = """
upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d
_upsample_nearest_exact2d _upsample_nearest_exact3d
"""
SAMPLER_TAPS_ALONG = {0: 2, 1: 0, 2: 4}
"""Taps along one dimension by `interpolation_mode`: linear, nearest, cubic."""


def weighted_sum_ops(taps: int) -> int:
    """The number of ops of a weighted sum of `taps` taps: `weighted_sum_ops(4) == 7`."""
    return max(0, 2 * taps - 1)


for _name, _count in TAPS.items():
    register(_name, category=RESAMPLING)(per_result(weighted_sum_ops(_count)))
    register(f"{_name}_backward", category=RESAMPLING)(per_operand(2 * _count, "grad_output"))
register(NEAREST, category=RESAMPLING, traffic=gathered("self", "input"))(free)
register(*(f"{name}_backward" for name in NEAREST.split()), category=RESAMPLING)(per_operand(1))


@register(*ANTIALIASED, category=RESAMPLING)
def antialiased(kind: OpKind) -> Work:
    """Two passes, one per dimension; the number of taps grows with the downsampling factor."""
    wide, narrow = first(kind).shape, result(kind).shape
    support = ANTIALIASED[kind.target.split(".")[1]]
    columns, rows = (ceil(support * max(1.0, wide[dim] / narrow[dim])) for dim in (-1, -2))
    across = result_numel(kind) // narrow[-2] * wide[-2]
    return Work(pointwise=across * weighted_sum_ops(columns) + result_numel(kind) * weighted_sum_ops(rows))


@register(*(f"{name}_backward" for name in ANTIALIASED), category=RESAMPLING)
def antialiased_backward(kind: OpKind) -> Work:
    """The transpose of the two passes: two ops per tap."""
    grad, wide = operand(kind, "grad_output"), kind.attributes["input_size"]
    support = ANTIALIASED[kind.target.split(".")[1].removesuffix("_backward")]
    columns, rows = (ceil(support * max(1.0, wide[dim] / grad.shape[dim])) for dim in (-1, -2))
    across = numel(grad) // grad.shape[-2] * wide[-2]
    return Work(pointwise=2 * (across * columns + numel(grad) * rows))


def _taps(kind: OpKind, rank: int) -> int:
    return int(SAMPLER_TAPS_ALONG[int(attribute(kind, "interpolation_mode", 0))] ** rank)


@register(
    "grid_sampler grid_sampler_2d grid_sampler_3d cudnn_grid_sampler _grid_sampler_2d_cpu_fallback",
    category=RESAMPLING,
)
def sample(kind: OpKind) -> Work:
    """A weighted sum of taps per output element, and four ops per grid coordinate to locate the point."""
    grid = operand(kind, "grid")
    taps = _taps(kind, grid.shape[-1])
    return Work(pointwise=weighted_sum_ops(taps) * result_numel(kind) + 4 * numel(grid))


@register(
    "grid_sampler_2d_backward grid_sampler_3d_backward cudnn_grid_sampler_backward "
    "_grid_sampler_2d_cpu_fallback_backward",
    category=RESAMPLING,
)
def sample_backward(kind: OpKind) -> Work:
    """Four ops per tap, and four ops per grid coordinate."""
    grid, grad = operand(kind, "grid"), operand(kind, "grad_output")
    return Work(pointwise=4 * max(1, _taps(kind, grid.shape[-1])) * numel(grad) + 4 * numel(grid))


@register("affine_grid_generator cudnn_affine_grid_generator", category=RESAMPLING)
def affine_grid(kind: OpKind) -> Work:
    """One MAC per output coordinate and matrix column."""
    return Work(macs=result_numel(kind) * first(kind).shape[-1])


@register("affine_grid_generator_backward cudnn_affine_grid_generator_backward", category=RESAMPLING)
def affine_grid_backward(kind: OpKind) -> Work:
    """As many MACs as the forward op, summed over the grid."""
    grad = operand(kind, "grad")
    return Work(macs=numel(grad) * (grad.shape[-1] + 1))
