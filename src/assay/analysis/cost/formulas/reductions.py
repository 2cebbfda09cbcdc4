"""Reductions and scans: a fixed number of ops per input element; sorting by comparisons."""

from __future__ import annotations

from assay.analysis.cost.categories import REDUCTION, SORTING
from assay.analysis.cost.reading import first, items, numel, operand, result_numel, search_steps, total
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
"""Names by their ops per input element."""

BACKWARDS = {
    1: "trace_backward value_selecting_reduction_backward cummaxmin_backward _nested_sum_backward"
    " _segment_reduce_backward",
    3: "cumprod_backward dist_backward",
}


def per_input(ops: int) -> WorkRule:
    """A formula: `ops` ops per element of the reduced tensors."""
    return lambda kind: Work(pointwise=ops * total(items(kind, "self") or [first(kind)]))


register_table(REDUCTIONS, per_input, category=REDUCTION)
register_table(BACKWARDS, per_input, category=REDUCTION)
register("amax amin sum prod xor_sum", category=REDUCTION, namespace="prims")(per_input(1))
register("var", category=REDUCTION, namespace="prims")(per_input(4))
# The overload with two tensors compares them element by element.
register("max.other min.other", category=REDUCTION)(per_result(1))


@register("cov corrcoef", category=REDUCTION)
def covariance(kind: OpKind) -> Work:
    """One MAC per pair of variables and observation."""
    data = first(kind)
    variables = data.shape[0] if len(data.shape) > 1 else 1
    return Work(macs=variables * numel(data), pointwise=2 * numel(data) + result_numel(kind))


@register("sort argsort msort median nanmedian kthvalue mode quantile nanquantile", category=SORTING)
def sort(kind: OpKind) -> Work:
    """n log2 n comparisons per vector along `dim`; without `dim`, the whole tensor is one vector."""
    data, dim = first(kind), kind.attributes.get("dim")
    if not data.shape:
        return Work()
    whole = dim is None and not kind.target.startswith(("aten.sort", "aten.argsort", "aten.msort"))
    default = 0 if kind.target.startswith("aten.msort") else -1
    length = numel(data) if whole else data.shape[default if dim is None else int(dim)]
    return Work(pointwise=numel(data) * search_steps(length))


@register("topk", category=SORTING)
def topk(kind: OpKind) -> Work:
    """log2 k comparisons per element, with a heap of k elements."""
    return Work(pointwise=numel(first(kind)) * max(1, search_steps(int(kind.attributes["k"]) + 1)))


@register("_unique _unique2 unique_dim unique_dim_consecutive", category=SORTING)
def unique(kind: OpKind) -> Work:
    """Sorting, then one comparison per element with its neighbour."""
    count = numel(first(kind))
    return Work(pointwise=count * (search_steps(count) + 1))


@register("searchsorted bucketize", category=SORTING)
def search(kind: OpKind) -> Work:
    """One binary search per output element."""
    edges = operand(kind, "sorted_sequence", "boundaries")
    return Work(pointwise=result_numel(kind) * max(1, search_steps(edges.shape[-1] + 1)))


@register("histogram histogramdd _histogramdd_from_bin_cts", category=SORTING)
def histogram(kind: OpKind) -> Work:
    """One binary search among the bins per element."""
    return Work(pointwise=numel(first(kind)) * max(1, search_steps(result_numel(kind) + 1)))
