"""Pairwise distances. The Euclidean is a contraction (a MAC a coordinate pair), the others are pointwise."""

from __future__ import annotations

from assay.analysis.cost.categories import ELEMENT_WISE, MATMUL
from assay.analysis.cost.reading import first, number, numel, operand, result_numel
from assay.analysis.cost.registry import register
from assay.analysis.cost.work import Work, contraction
from assay.document.rows import OpKind

PER_COORDINATE = 3
"""Subtract, take the power, add."""


@register(
    "aten::cdist", "aten::_cdist_forward", "aten::_euclidean_dist", "aten::pdist",
    "aten::_pdist_forward", category=MATMUL,
)  # fmt: skip
def pairwise(kind: OpKind) -> Work:
    """Every pair meets in every coordinate."""
    coordinates = result_numel(kind) * first(kind).shape[-1]
    if number(kind, "p", 2) == 2:
        return contraction(coordinates, first(kind).dtype, pointwise=result_numel(kind))
    return Work(pointwise=PER_COORDINATE * coordinates)


@register("aten::_cdist_backward", "aten::_pdist_backward", category=MATMUL)
def pairwise_backward(kind: OpKind) -> Work:
    """As many coordinate pairs as the forward, element by element."""
    coordinates = numel(operand(kind, "grad")) * operand(kind, "x1", "self").shape[-1]
    return Work(pointwise=PER_COORDINATE * coordinates)


@register("aten::cosine_similarity", "aten::pairwise_distance", category=ELEMENT_WISE)
def along(kind: OpKind) -> Work:
    """Three sums of products (or one of differences) along the vectors: six an input element."""
    return Work(pointwise=6 * max(numel(one.type) for one in kind.inputs))


@register("aten::dist", category=ELEMENT_WISE)
def whole_distance(kind: OpKind) -> Work:
    """One norm of a difference."""
    return Work(pointwise=PER_COORDINATE * max(numel(one.type) for one in kind.inputs))
