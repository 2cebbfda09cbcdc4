"""Reductions and scans: so many operations an input element."""

from __future__ import annotations

from assay.analysis.cost.categories import REDUCTION, SORTING
from assay.analysis.cost.reading import first, items, levels, numel, operand, result_numel, total
from assay.analysis.cost.registry import WorkRule, register, register_table
from assay.analysis.cost.rules import per_result
from assay.analysis.cost.work import Work
from assay.document.rows import OpKind

REDUCTIONS = {
    1: "sum mean prod amax amin max min argmax argmin any all nansum nanmean count_nonzero cumsum"
    " cumprod cummax cummin _cummax_helper _cummin_helper trace sum_to_size _grad_sum_to_size bincount histc"
    " segment_reduce _is_all_true _is_any_true equal hash_tensor diff gradient nonzero nonzero_static"
    " nonzero_numpy argwhere _linalg_check_errors masked_select unique_consecutive",
    2: "norm native_norm linalg_vector_norm linalg_norm linalg_matrix_norm frobenius_norm norm_except_dim"
    " aminmax _aminmax linalg__powsum _foreach_powsum trapezoid trapz cumulative_trapezoid renorm",
    3: "logcumsumexp _logcumsumexp",
    4: "logsumexp special_logsumexp var std var_mean std_mean",
}
"""Names by their operations an input element."""

BACKWARDS = {
    1: "trace_backward value_selecting_reduction_backward cummaxmin_backward _nested_sum_backward"
    " _segment_reduce_backward",
    3: "cumprod_backward dist_backward",
}


def per_input(operations: int) -> WorkRule:
    """A formula of so many operations an element of what is reduced."""
    return lambda kind: Work(pointwise=operations * total(items(kind, "self") or [first(kind)]))


register_table(REDUCTIONS, per_input, category=REDUCTION)
register_table(BACKWARDS, per_input, category=REDUCTION)
register("amax amin sum prod xor_sum", category=REDUCTION, namespace="prims")(per_input(1))
register("var", category=REDUCTION, namespace="prims")(per_input(4))
# The form with two tensors compares element by element.
register("max.other min.other", category=REDUCTION)(per_result(1))


@register("cov corrcoef", category=REDUCTION)
def covariance(kind: OpKind) -> Work:
    """Every pair of variables along all observations."""
    given = first(kind)
    variables = given.shape[0] if len(given.shape) > 1 else 1
    return Work(macs=variables * numel(given), pointwise=2 * numel(given) + result_numel(kind))


@register("sort argsort msort median nanmedian kthvalue mode quantile nanquantile", category=SORTING)
def sort(kind: OpKind) -> Work:
    """n log2 n comparisons a line; without a dimension the whole tensor is one line."""
    given, dim = first(kind), kind.attributes.get("dim")
    if not given.shape:
        return Work()
    whole = dim is None and not kind.target.startswith(("aten.sort", "aten.argsort", "aten.msort"))
    default = 0 if kind.target.startswith("aten.msort") else -1
    length = numel(given) if whole else given.shape[default if dim is None else int(dim)]
    return Work(pointwise=numel(given) * levels(length))


@register("topk", category=SORTING)
def topk(kind: OpKind) -> Work:
    """A heap of k: every element against log2 of it."""
    return Work(pointwise=numel(first(kind)) * max(1, levels(int(kind.attributes["k"]) + 1)))


@register("_unique _unique2 unique_dim unique_dim_consecutive", category=SORTING)
def unique(kind: OpKind) -> Work:
    """Sorted, then compared with the neighbour."""
    count = numel(first(kind))
    return Work(pointwise=count * (levels(count) + 1))


@register("searchsorted bucketize", category=SORTING)
def search(kind: OpKind) -> Work:
    """A binary search an element."""
    edges = operand(kind, "sorted_sequence", "boundaries")
    return Work(pointwise=result_numel(kind) * max(1, levels(edges.shape[-1] + 1)))


@register("histogram histogramdd _histogramdd_from_bin_cts", category=SORTING)
def histogram(kind: OpKind) -> Work:
    """A bin an element: a search among them."""
    return Work(pointwise=numel(first(kind)) * max(1, levels(result_numel(kind) + 1)))
