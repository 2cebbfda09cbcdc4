"""Pairwise distances. The Euclidean is a contraction (a MAC a coordinate pair), the others are pointwise."""

from __future__ import annotations

from assay.analysis.cost.categories import ELEMENT_WISE, MATMUL
from assay.analysis.cost.reading import first, number, numel, operand, result_numel
from assay.analysis.cost.registry import register
from assay.analysis.cost.rules import per_largest
from assay.analysis.cost.work import Work, contraction
from assay.document.rows import OpKind

PER_COORDINATE = 3
"""Subtract, take the power, add."""
ALONG = 6
"""Three sums of products (or one of differences) along the vectors."""


@register("cdist _cdist_forward _euclidean_dist pdist _pdist_forward", category=MATMUL)
def pairwise(kind: OpKind) -> Work:
    """Every pair meets in every coordinate."""
    coordinates = result_numel(kind) * first(kind).shape[-1]
    if number(kind, "p", 2) == 2:
        return contraction(coordinates, first(kind).dtype, pointwise=result_numel(kind))
    return Work(pointwise=PER_COORDINATE * coordinates)


@register("_cdist_backward _pdist_backward", category=MATMUL)
def pairwise_backward(kind: OpKind) -> Work:
    """As many coordinate pairs as the forward, element by element."""
    coordinates = numel(operand(kind, "grad")) * operand(kind, "x1", "self").shape[-1]
    return Work(pointwise=PER_COORDINATE * coordinates)


register("cosine_similarity pairwise_distance", category=ELEMENT_WISE)(per_largest(ALONG))
register("dist", category=ELEMENT_WISE)(per_largest(PER_COORDINATE))
