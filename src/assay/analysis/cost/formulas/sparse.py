"""Sparse ops other than plain matrix products, counted by stored elements.

Matrix products with a sparse operand are counted with the dense ones, by the stored elements of that operand.
"""

from __future__ import annotations

from assay.analysis.cost.categories import SPARSE
from assay.analysis.cost.reading import bias_adds, first, numel, operand, result_numel, rows, search_steps, stored
from assay.analysis.cost.registry import WorkRule, register, register_table
from assay.analysis.cost.rules import free
from assay.analysis.cost.work import Uncountable, Work, contraction
from assay.document.rows import OpKind

REBUILT = """
_sparse_coo_tensor_unsafe _sparse_coo_tensor_with_dims _sparse_coo_tensor_with_dims_and_tensors
sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor sparse_compressed_tensor
_sparse_csr_tensor_unsafe _sparse_csc_tensor_unsafe _sparse_bsr_tensor_unsafe _sparse_bsc_tensor_unsafe
_sparse_compressed_tensor_unsafe _sparse_compressed_tensor_with_dims to_sparse _to_sparse to_sparse_csr
_to_sparse_csr to_sparse_csc _to_sparse_csc to_sparse_bsr _to_sparse_bsr to_sparse_bsc _to_sparse_bsc
_to_sparse_semi_structured _cslt_compress _sparse_semi_structured_tile _sparse_semi_structured_apply
_sparse_semi_structured_apply_dense sparse_mask _sparse_mask_projection _sparse_broadcast_to
_sparse_broadcast_to_copy copy_sparse_to_sparse copy_sparse_to_sparse_ sparse_resize_
sparse_resize_and_clear_ resize_as_sparse_ _convert_indices_from_coo_to_csr
_convert_indices_from_csr_to_coo _coalesced _coalesced_
"""
"""Sparse layouts built, converted or relabelled: elements move, but no arithmetic is done."""

PER_STORED = {
    1: "_sparse_sum _sparse_sum_backward _sparse_csr_sum _sparse_csr_prod",
    4: "_sparse_softmax_backward_data _sparse_log_softmax_backward_data",
    5: "_sparse_softmax _sparse_log_softmax",
}
"""Names by their ops per stored element."""


def _per_stored(ops: int) -> WorkRule:
    return lambda kind: Work(pointwise=ops * stored(operand(kind, "self", "grad", "grad_output")))


register(REBUILT, category=SPARSE)(free)
register_table(PER_STORED, _per_stored, category=SPARSE)


@register("coalesce _coalesce", category=SPARSE)
def coalesce(kind: OpKind) -> Work:
    """Sorting the coordinates, and one addition per stored element to merge equal ones."""
    count = stored(first(kind))
    return Work(pointwise=count * (search_steps(count) + 1))


@register("sparse_sampled_addmm", category=SPARSE)
def sampled_product(kind: OpKind) -> Work:
    """One dot product per stored element of `self`."""
    positions = stored(operand(kind, "self"))
    left = operand(kind, "mat1")
    return contraction(positions * left.shape[-1], left.dtype, pointwise=positions)


@register("_sparse_mm_reduce_impl", category=SPARSE)
def product_reduced(kind: OpKind) -> Work:
    """One MAC per stored element and column of the dense operand."""
    return Work(macs=stored(operand(kind, "self")) * operand(kind, "other").shape[-1])


@register("_sparse_mm_reduce_impl_backward", category=SPARSE)
def product_reduced_backward(kind: OpKind) -> Work:
    """As many MACs as the forward op for each gradient requested."""
    gradients = sum(bool(one) for one in kind.attributes["output_mask"])
    return Work(macs=gradients * stored(operand(kind, "self")) * operand(kind, "grad_out").shape[-1])


@register("_sparse_sparse_matmul", category=SPARSE)
def sparse_times_sparse(kind: OpKind) -> Work:
    """Raises `Uncountable`: shapes do not determine the work."""
    raise Uncountable("the cost of a product of two sparse tensors depends on the positions of their elements")


@register("_sparse_semi_structured_linear", category=SPARSE)
def semi_structured_linear(kind: OpKind) -> Work:
    """One MAC per row and stored weight; two of every four weights are stored."""
    return Work(rows(operand(kind, "input")) * numel(operand(kind, "weight")), bias_adds(kind, "bias"))


@register("_sparse_semi_structured_mm _sparse_semi_structured_addmm", category=SPARSE)
def semi_structured_product(kind: OpKind) -> Work:
    """One MAC per stored element of the left operand and column of the right one."""
    macs = numel(operand(kind, "mat1")) * operand(kind, "mat2").shape[-1]
    return Work(macs, bias_adds(kind, "input"))


@register("_cslt_sparse_mm", category=SPARSE)
def compressed_product(kind: OpKind) -> Work:
    """Half the MACs of the dense product: two of every four elements are stored."""
    return Work(result_numel(kind) * operand(kind, "dense_B").shape[-2] // 2, bias_adds(kind, "bias"))
