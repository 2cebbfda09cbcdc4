"""Pairwise distances. The Euclidean distance is a contraction (one MAC per coordinate pair); others are pointwise."""

from __future__ import annotations

from assay.analysis.cost.categories import ELEMENT_WISE, MATMUL
from assay.analysis.cost.reading import first, number, numel, operand, result_numel
from assay.analysis.cost.registry import register
from assay.analysis.cost.rules import per_largest
from assay.analysis.cost.work import Work, contraction
from assay.document.rows import OpKind

PER_COORDINATE = 3
"""Ops per coordinate pair: subtract, raise to a power, add."""
ALONG = 6
"""Ops per element: three sums of products (or one of differences) along the vectors."""


@register("cdist _cdist_forward _euclidean_dist pdist _pdist_forward", category=MATMUL)
def pairwise(kind: OpKind) -> Work:
    """One MAC per coordinate pair for the Euclidean distance; three ops per coordinate pair otherwise."""
    coordinates = result_numel(kind) * first(kind).shape[-1]
    if number(kind, "p", 2) == 2:
        return contraction(coordinates, first(kind).dtype, pointwise=result_numel(kind))
    return Work(pointwise=PER_COORDINATE * coordinates)


@register("_cdist_backward _pdist_backward", category=MATMUL)
def pairwise_backward(kind: OpKind) -> Work:
    """Three ops per coordinate pair of the forward op."""
    coordinates = numel(operand(kind, "grad")) * operand(kind, "x1", "self").shape[-1]
    return Work(pointwise=PER_COORDINATE * coordinates)


register("cosine_similarity pairwise_distance", category=ELEMENT_WISE)(per_largest(ALONG))
register("dist", category=ELEMENT_WISE)(per_largest(PER_COORDINATE))
