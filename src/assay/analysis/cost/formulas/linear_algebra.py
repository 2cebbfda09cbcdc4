"""Factorisations and solves: the textbook FLOP counts for an m x n matrix, leading terms only.

Iterative algorithms (eigenvalues, singular values) count the usual average.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from assay.analysis.cost.categories import LINEAR_ALGEBRA
from assay.analysis.cost.reading import attribute, first, numel, operand, result
from assay.analysis.cost.registry import register
from assay.analysis.cost.rules import per_result
from assay.analysis.cost.work import FLOPS_PER_MAC, REAL_MACS_PER_COMPLEX_MAC, Work
from assay.document.rows import OpKind, TensorType

SquareOrTall = Callable[[int, int], float]

FACTORISATIONS: dict[str, SquareOrTall] = {
    "cholesky linalg_cholesky linalg_cholesky_ex linalg_ldl_factor linalg_ldl_factor_ex": lambda m, n: n**3 / 3,
    "linalg_lu linalg_lu_factor linalg_lu_factor_ex _lu_with_info det linalg_det _linalg_det slogdet"
    " linalg_slogdet _linalg_slogdet logdet": lambda m, n: (max(m, n) - min(m, n) / 3) * min(m, n) ** 2,
    "linalg_inv linalg_inv_ex inverse cholesky_inverse linalg_tensorinv": lambda m, n: 2 * n**3,
    "qr linalg_qr geqrf": lambda m, n: 4 * max(m, n) * min(m, n) ** 2 - 4 * min(m, n) ** 3 / 3,
    "linalg_eigh _linalg_eigh": lambda m, n: 9 * n**3,
    "linalg_eigvalsh": lambda m, n: 4 * n**3 / 3,
    "linalg_eig": lambda m, n: 25 * n**3,
    "linalg_eigvals _linalg_eigvals": lambda m, n: 10 * n**3,
    "svd linalg_svd _linalg_svd linalg_pinv pinverse linalg_cond linalg_matrix_rank nuclear_norm": lambda m, n: (
        4 * max(m, n) ** 2 * min(m, n) + 22 * min(m, n) ** 3
    ),
    "linalg_svdvals": lambda m, n: 4 * max(m, n) * min(m, n) ** 2 - 4 * min(m, n) ** 3 / 3,
    "linalg_householder_product orgqr": lambda m, n: 4 * m * n**2 - 4 * n**3 / 3,
    "matrix_exp linalg_matrix_exp": lambda m, n: 20 * n**3,
    "lu_unpack": lambda m, n: 0,
}
"""FLOPs of factorising one matrix with m rows and n columns, by op names."""


def _work(flops: float, tensor: TensorType) -> Work:
    scale = REAL_MACS_PER_COMPLEX_MAC if tensor.dtype.startswith("complex") else 1
    whole = round(flops * scale)
    return Work(macs=whole // FLOPS_PER_MAC, matrix_flops=whole)


def _factorise(kind: OpKind, count: SquareOrTall) -> Work:
    matrix = first(kind)
    rows, columns = matrix.shape[-2:]
    batches = numel(matrix) // (rows * columns) if rows * columns else 0
    return _work(batches * count(rows, columns), matrix)


for _names, _count in FACTORISATIONS.items():
    register(_names, category=LINEAR_ALGEBRA)(partial(_factorise, count=_count))


@register("linalg_solve linalg_solve_ex _linalg_solve_ex linalg_tensorsolve", category=LINEAR_ALGEBRA)
def solve(kind: OpKind) -> Work:
    """One elimination (2/3 n³ FLOPs), then two triangular solves per column."""
    matrix = operand(kind, "A", "self")
    size = matrix.shape[-1]
    return _work(numel(matrix) * size * 2 / 3 + 2 * numel(result(kind)) * size, matrix)


@register("linalg_lu_solve lu_solve cholesky_solve _cholesky_solve_helper linalg_ldl_solve", category=LINEAR_ALGEBRA)
def solve_factored(kind: OpKind) -> Work:
    """Two triangular solves: 2 n² FLOPs per column."""
    size = result(kind).shape[-2]
    return _work(2 * numel(result(kind)) * size, result(kind))


@register("linalg_solve_triangular triangular_solve", category=LINEAR_ALGEBRA)
def solve_triangular(kind: OpKind) -> Work:
    """n² FLOPs per column, or per row if solved from the right."""
    solution = result(kind)
    size = solution.shape[-2] if attribute(kind, "left", True) else solution.shape[-1]
    return _work(numel(solution) * size, solution)


@register("linalg_lstsq", category=LINEAR_ALGEBRA)
def least_squares(kind: OpKind) -> Work:
    """One QR factorisation, then one solve."""
    matrix, right = operand(kind, "self"), operand(kind, "b", "B")
    rows, columns = matrix.shape[-2:]
    batches = numel(matrix) // (rows * columns)
    factor = 2 * max(rows, columns) * min(rows, columns) ** 2
    return _work(batches * factor + 4 * numel(right) * columns, matrix)


@register("ormqr", category=LINEAR_ALGEBRA)
def multiply_by_q(kind: OpKind) -> Work:
    """Four FLOPs per output element and reflector."""
    return _work(4 * numel(result(kind)) * first(kind).shape[-1], first(kind))


register("linalg_vander", category=LINEAR_ALGEBRA)(per_result(1))
