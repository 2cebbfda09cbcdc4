"""Constants of formulas that the first tables leave out: the rest of linear algebra, and sparse element-wise ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from counted import counted, executed

SIX = 6**3

LINEAR_ALGEBRA: dict[str, tuple[float, Callable[[torch.Tensor], Any]]] = {
    # FLOPs for one 6 × 6 matrix; a reflector applied to an m × n matrix takes 4mn
    "eigenvalues": (10 * SIX, torch.linalg.eigvals),
    "eigenvectors": (25 * SIX, torch.linalg.eig),
    "householder product": (8 * SIX / 3, lambda x: torch.linalg.householder_product(x, torch.ones(6))),
    "exponential": (20 * SIX, torch.linalg.matrix_exp),
    "multiply by Q": (4 * 6 * 2 * 6, lambda x: torch.ormqr(x, torch.ones(6), torch.ones(6, 2))),
    "factored solve": (2 * 6 * 6 * 2, lambda x: torch.cholesky_solve(torch.ones(6, 2), x)),
    "least squares": (2 * SIX + 4 * 6 * 2 * 6, lambda x: torch.linalg.lstsq(x, torch.ones(6, 2))),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("case", LINEAR_ALGEBRA)
def test_linear_algebra_constants(case: str) -> None:
    flops, function = LINEAR_ALGEBRA[case]
    rows = executed(function, torch.eye(6) * 2)
    assert sum(cost.matrix_flops or 0 for _, cost in rows if cost.category == "LinearAlgebra") == flops


@pytest.mark.parametrize(
    ("dense", "sparse"),
    [
        (lambda x: torch.softmax(x, 1), lambda x: torch.sparse.softmax(x, 1)),
        (lambda x: torch.log_softmax(x, 1), lambda x: torch.sparse.log_softmax(x, 1)),
    ],
    ids=["softmax", "log_softmax"],
)
def test_an_op_on_a_full_sparse_tensor_costs_what_the_dense_one_does(dense: Any, sparse: Any) -> None:
    x = torch.rand(3, 4) + 1
    assert counted(sparse, x.to_sparse()).pointwise_flops == counted(dense, x).pointwise_flops == 5 * 12
