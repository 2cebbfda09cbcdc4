"""Matrix products. MACs = output elements × length of the sum; sparse operands count their stored elements."""

from __future__ import annotations

from math import prod

from assay.analysis.cost.bytes import routed
from assay.analysis.cost.categories import ELEMENT_WISE, LINEAR, MATMUL
from assay.analysis.cost.reading import (
    all_results_numel,
    bias_adds,
    first,
    is_sparse,
    items,
    mask,
    number,
    numel,
    operand,
    optional,
    result,
    result_numel,
    rows,
    stored,
    total,
)
from assay.analysis.cost.registry import register
from assay.analysis.cost.work import Uncountable, Work, contraction
from assay.document.dtypes import packing
from assay.document.rows import OpKind, TensorType

_RIGHT = ("mat2", "batch2", "vec2", "vec", "other", "tensor", "weight", "dense")


def product_macs(left: TensorType, right: TensorType, out: int) -> int:
    """MACs of `left @ right` with `out` output elements: one per output element and column of `left`."""
    if is_sparse(left) and is_sparse(right):
        raise Uncountable("the cost of a product of two sparse tensors depends on the positions of their elements")
    length = left.shape[-1] * packing(left.dtype)
    dense = out * length
    for side in (left, right):
        if is_sparse(side):
            return dense * stored(side) // numel(side) if numel(side) else 0
    return dense


def _product(kind: OpKind, left: TensorType, right: TensorType) -> Work:
    return contraction(product_macs(left, right, result_numel(kind)), result(kind).dtype)


@register(
    "mm bmm mv dot vdot inner matmul linalg_matmul _sparse_mm smm hspmm _int_mm _scaled_mm _scaled_mm_v2 "
    "quantized::matmul",
    category=MATMUL,
)
def product(kind: OpKind) -> Work:
    """`a @ b` in all its forms, including broadcast batches."""
    return _product(kind, kind.inputs[0].type, kind.inputs[1].type) + Work(pointwise=bias_adds(kind, "bias"))


@register("linalg_vecdot", category=MATMUL)
def vecdot(kind: OpKind) -> Work:
    """One MAC per element of the broadcast inputs."""
    dim = int(kind.attributes.get("dim", -1))
    return contraction(result_numel(kind) * first(kind).shape[dim], result(kind).dtype)


@register("addmm baddbmm addmv _sparse_addmm sspaddmm _addmm_activation", category=MATMUL)
def product_added(kind: OpKind) -> Work:
    """`beta * self + alpha * (a @ b)`."""
    left, right = operand(kind, "mat1", "batch1", "mat"), operand(kind, *_RIGHT)
    return _product(kind, left, right) + Work(pointwise=_addition_ops(kind))


@register("addbmm", category=MATMUL)
def batch_product_added(kind: OpKind) -> Work:
    """A batch of matrix products summed into one matrix."""
    left = operand(kind, "batch1")
    return contraction(result_numel(kind) * left.shape[0] * left.shape[-1], left.dtype, pointwise=_addition_ops(kind))


def _addition_ops(kind: OpKind) -> int:
    """Pointwise ops of `beta * self + alpha * product`, factors of 1 not counted; `self` is skipped if beta is 0."""
    beta, alpha = number(kind, "beta", 1), number(kind, "alpha", 1)
    return result_numel(kind) * ((beta != 0) + (beta not in (0, 1)) + (alpha != 1))


@register(
    "linear mkldnn_linear mkldnn::_linear_pointwise mkl::_mkl_linear _mixed_dtypes_linear fbgemm_linear_fp16_weight "
    "fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight fbgemm_linear_int8_weight_fp32_activation",
    category=LINEAR,
)
def linear(kind: OpKind) -> Work:
    """`x @ weight.T + bias`; the bias is one pointwise addition per output element."""
    right = optional(kind, "weight") or first(kind)
    return _product(kind, first(kind), right) + Work(pointwise=bias_adds(kind, "bias", "B"))


@register("linear_backward mkldnn_linear_backward", category=LINEAR)
def linear_backward(kind: OpKind) -> Work:
    """As many MACs as the forward op for each gradient of input and weight; one addition per element for the bias."""
    gradients, grad = mask(kind), operand(kind, "grad_output")
    macs = numel(grad) * operand(kind, "weight").shape[-1]
    return contraction(macs * sum(gradients[:2]), grad.dtype, pointwise=numel(grad) * gradients[2])


@register("mkldnn_linear_backward_input mkldnn_linear_backward_weights", category=LINEAR)
def linear_backward_half(kind: OpKind) -> Work:
    """One of the two products of a linear layer's backward pass."""
    grad = operand(kind, "grad_output")
    bias = numel(grad) if kind.attributes.get("bias_defined") else 0
    return contraction(numel(grad) * operand(kind, "weight").shape[-1], grad.dtype, pointwise=bias)


@register("matmul_backward", category=MATMUL)
def matmul_backward(kind: OpKind) -> Work:
    """As many MACs as the forward op for each gradient requested."""
    grad, left = operand(kind, "grad"), operand(kind, "self")
    return contraction(numel(grad) * left.shape[-1] * sum(mask(kind, "mask")), grad.dtype)


@register("_grouped_mm _scaled_grouped_mm _scaled_grouped_mm_v2", category=MATMUL, traffic=routed)
def grouped_product(kind: OpKind) -> Work:
    """Every routed row is multiplied by the matrix of its group, so the group sizes do not matter."""
    left, right = operand(kind, "self"), operand(kind, "mat2")
    height, length, columns = left.shape[-2], left.shape[-1] * packing(left.dtype), right.shape[-1]
    batches = left.shape[0] if len(left.shape) == 3 and len(right.shape) == 3 else 1
    return contraction(batches * height * length * columns, left.dtype, pointwise=bias_adds(kind, "bias"))


@register("tensordot", category=MATMUL)
def tensordot(kind: OpKind) -> Work:
    """One MAC per pair of free elements and contracted element; a dimension paired with size 1 is summed first."""
    left, right = operand(kind, "self"), operand(kind, "other")
    pairs = list(zip(kind.attributes["dims_self"], kind.attributes["dims_other"], strict=True))
    length = prod(min(left.shape[a], right.shape[b]) for a, b in pairs)
    free_left = numel(left) // max(1, prod(left.shape[a] for a, _ in pairs))
    free_right = numel(right) // max(1, prod(right.shape[b] for _, b in pairs))
    return contraction(length * free_left * free_right, left.dtype)


@register("bilinear", category=LINEAR)
def bilinear(kind: OpKind) -> Work:
    """The outer product of the inputs (pointwise), contracted with one matrix per output feature."""
    weight, height = operand(kind, "weight"), rows(operand(kind, "input1"))
    outer = height * prod(weight.shape[1:])
    return contraction(height * numel(weight), weight.dtype, pointwise=outer + bias_adds(kind, "bias"))


@register("_trilinear", category=MATMUL)
def trilinear(kind: OpKind) -> Work:
    """The product of two expanded inputs (pointwise), contracted with the third."""
    full = [1] * (len(kind.inputs[0].type.shape) + len(kind.attributes["expand1"]))
    for position, one in enumerate(kind.inputs[:3], start=1):
        expanded = _expanded(one.type.shape, kind.attributes[f"expand{position}"])
        full = [max(pair) for pair in zip(full, expanded, strict=True)]
    return contraction(prod(full), first(kind).dtype, pointwise=numel(first(kind)) * first(kind).shape[-1])


def _expanded(shape: tuple[int, ...], dims: list[int]) -> list[int]:
    sizes = list(shape)
    for dim in sorted(dims):
        sizes.insert(dim, 1)
    return sizes


@register("chain_matmul linalg_multi_dot", category=MATMUL)
def chain(kind: OpKind) -> Work:
    """The MACs of a chain of matrix products in the cheapest order, which is the one torch uses."""
    matrices = items(kind, "matrices") or items(kind, "tensors")
    shapes = [one.shape for one in matrices]
    sizes = _chain_sizes(shapes)
    best = [[0] * len(matrices) for _ in matrices]
    for width in range(1, len(matrices)):
        for low in range(len(matrices) - width):
            high = low + width
            best[low][high] = min(
                best[low][cut] + best[cut + 1][high] + sizes[low] * sizes[cut + 1] * sizes[high + 1]
                for cut in range(low, high)
            )
    return contraction(best[0][-1], matrices[0].dtype)


def _chain_sizes(shapes: list[tuple[int, ...]]) -> list[int]:
    """Rows of the first matrix, then columns of each; a vector is a row at the start and a column at the end."""
    first_shape, last_shape = shapes[0], shapes[-1]
    rows = first_shape[0] if len(first_shape) == 2 else 1
    columns = [shape[-1] for shape in shapes[:-1]]
    return [rows, *columns, last_shape[1] if len(last_shape) == 2 else 1]


@register("_foreach_mm", category=MATMUL)
def foreach_product(kind: OpKind) -> Work:
    """The MACs of all matrix products in a list."""
    pairs = zip(items(kind, "self"), items(kind, "mat2"), strict=True)
    return contraction(sum(numel(left) * right.shape[-1] for left, right in pairs), first(kind).dtype)


@register("inductor::_mm_plus_mm", category=MATMUL)
def product_plus_product(kind: OpKind) -> Work:
    """`a @ b + c @ d`."""
    macs = sum(numel(operand(kind, left)) * operand(kind, right).shape[-1] for left, right in ("ab", "cd"))
    return contraction(macs, first(kind).dtype, pointwise=result_numel(kind))


@register("outer ger kron cartesian_prod", category=ELEMENT_WISE)
def outer(kind: OpKind) -> Work:
    """One multiplication per output element; nothing is summed."""
    return Work(pointwise=all_results_numel(kind))


@register("addr", category=ELEMENT_WISE)
def outer_added(kind: OpKind) -> Work:
    """`beta * self + alpha * outer(a, b)`."""
    return Work(pointwise=result_numel(kind) + _addition_ops(kind))


@register("linalg_matrix_power matrix_power", category=MATMUL)
def matrix_power(kind: OpKind) -> Work:
    """The squarings and products of binary exponentiation; raises `Uncountable` for a negative power."""
    power, matrix = int(kind.attributes["n"]), first(kind)
    if power < 0:
        raise Uncountable("a negative matrix power, which includes an inversion, is not counted")
    products = max(0, power.bit_length() - 1 + power.bit_count() - 1) if power else 0
    return contraction(products * total([matrix]) * matrix.shape[-1], matrix.dtype)
