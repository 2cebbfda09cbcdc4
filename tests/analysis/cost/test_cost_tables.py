"""The documented numbers of ops per element, each checked with a captured op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from counted import counted, executed

from assay.analysis.cost import cost_of
from assay.document.rows import Operand, OpKind, TensorType

N = 12
POINTWISE: dict[str, tuple[int, Callable[[torch.Tensor], Any]]] = {
    # ops for a 3 x 4 input
    "relu": (N, F.relu),
    "exp": (N, torch.exp),
    "add": (N, lambda x: x + 1),
    "add scaled": (2 * N, lambda x: torch.add(x, x, alpha=3)),
    "broadcast": (5 * N, lambda x: x + torch.ones(5, 1, 1)),
    "compare": (N, lambda x: x > 0),
    "where": (2 * N, lambda x: torch.where(x > 0, x, x)),
    "clamp": (2 * N, lambda x: x.clamp(0, 1)),
    "leaky relu": (2 * N, F.leaky_relu),
    "sigmoid": (4 * N, torch.sigmoid),
    "silu": (5 * N, F.silu),
    "gelu": (5 * N, F.gelu),
    "gelu tanh": (9 * N, lambda x: F.gelu(x, approximate="tanh")),
    "mish": (7 * N, F.mish),
    "glu": (5 * N // 2, F.glu),
    "softmax": (5 * N, lambda x: x.softmax(-1)),
    "log softmax": (5 * N, lambda x: x.log_softmax(-1)),
    "addcmul": (3 * N, lambda x: torch.addcmul(x, x, x, value=2)),
    "sum": (N, torch.sum),
    "mean of rows": (N, lambda x: x.mean(-1)),
    "argmax": (N, torch.argmax),
    "cumsum": (N, lambda x: x.cumsum(0)),
    "norm": (2 * N, torch.linalg.vector_norm),
    "variance": (4 * N, torch.var),
    "logsumexp": (4 * N, lambda x: x.logsumexp(-1)),
    "larger of two": (N, lambda x: torch.max(x, x)),
    "sort": (N * 2, lambda x: x.sort(-1)),
    "sort columns": (N * 2, lambda x: x.sort(0)),
    "median of all": (N * 4, torch.median),
    "topk": (N * 2, lambda x: x.topk(3)),
    "unique": (N * 5, torch.unique),
    "search": (N * 3, lambda x: torch.bucketize(x, torch.arange(7.0))),
    "max pool": (4 * 4, lambda x: F.max_pool2d(x[None], 2, stride=(1, 2))),
    "average pool": (4 * 4, lambda x: F.avg_pool2d(x[None], 2, stride=(1, 2))),
    "nearest": (0, lambda x: F.interpolate(x[None], scale_factor=2)),
    "linear resampling": (3 * 2 * N, lambda x: F.interpolate(x[None], scale_factor=2, mode="linear")),
    "bicubic": (31 * 4 * N, lambda x: F.interpolate(x[None, None], scale_factor=2, mode="bicubic")),
    "complex product": (6 * N, lambda x: torch.complex(x, x) * torch.complex(x, x)),
    "complex sum": (2 * N, lambda x: torch.complex(x, x) + torch.complex(x, x)),
    "cross entropy": (5 * N + 2 * 3, lambda x: F.cross_entropy(x, torch.arange(3))),
    "cross entropy, smoothed": (7 * N, lambda x: F.cross_entropy(x, torch.arange(3), label_smoothing=0.1)),
    "squared error": (3 * N, lambda x: F.mse_loss(x, x)),
    "index add": (8, lambda x: x.clone().index_add_(0, torch.tensor([0, 0]), x[:2])),
    "embedding bag": (2 * 4, lambda x: F.embedding_bag(torch.tensor([[0, 1]]), x, mode="sum")),
    "quantise": (4 * N, lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)),
    "movement": (0, lambda x: torch.cat([x.flip(0), x.repeat(2, 1)]).t().contiguous().roll(1)),
    "random": (0, lambda x: torch.rand_like(x).bernoulli_()),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("case", POINTWISE)
def test_pointwise_constants(case: str) -> None:
    expected, function = POINTWISE[case]
    cost = counted(function, torch.rand(3, 4))
    assert (cost.pointwise_flops, cost.macs) == (expected, 0)


LINEAR_ALGEBRA: dict[str, tuple[float, Callable[[torch.Tensor], Any]]] = {
    # FLOPs for one 6 x 6 matrix
    "cholesky": (6**3 / 3, torch.linalg.cholesky),
    "lu": (2 * 6**3 / 3, torch.linalg.lu_factor),
    "determinant": (2 * 6**3 / 3, torch.linalg.det),
    "inverse": (2 * 6**3, torch.linalg.inv),
    "qr": (8 * 6**3 / 3, torch.linalg.qr),
    "eigh": (9 * 6**3, torch.linalg.eigh),
    "svd": (26 * 6**3, torch.linalg.svd),
    "solve": (2 * 6**3 / 3 + 2 * 6 * 6 * 2, lambda x: torch.linalg.solve(x, torch.ones(6, 2))),
    "triangular": (6 * 6 * 2, lambda x: torch.linalg.solve_triangular(x, torch.ones(6, 2), upper=True)),
}


@pytest.mark.parametrize("case", LINEAR_ALGEBRA)
def test_linear_algebra_constants(case: str) -> None:
    flops, function = LINEAR_ALGEBRA[case]
    rows = executed(function, torch.eye(6) * 2)
    assert sum(cost.matrix_flops or 0 for _, cost in rows if cost.category == "LinearAlgebra") == flops
    assert all(cost.macs is not None for _, cost in rows), rows


def operand(name: str, *shape: int, nnz: int | None = None) -> Operand:
    return Operand(name, TensorType(shape, "float16", None, "strided" if nnz is None else "sparse_csr", nnz))


KERNELS: dict[str, tuple[int, OpKind]] = {
    "2:4 linear": (8 * 16 * 4, OpKind(
        "", "aten._sparse_semi_structured_linear.default", {},
        (operand("input", 8, 8), operand("weight", 16, 4), operand("meta", 16, 1)), (operand("output", 8, 16),))),
    "2:4 product": (16 * 8 * 4, OpKind(
        "", "aten._cslt_sparse_mm.default", {},
        (operand("compressed_A", 99), operand("dense_B", 8, 8)), (operand("output", 16, 8),))),
    "sampled product": (20 * 5, OpKind(
        "", "aten.sparse_sampled_addmm.default", {},
        (operand("self", 8, 8, nnz=20), operand("mat1", 8, 5), operand("mat2", 5, 8)),
        (operand("output", 8, 8, nnz=20),))),
    "int4 weights": (8 * 16 * 64, OpKind(
        "", "aten._weight_int4pack_mm.default", {"qGroupSize": 32},
        (operand("self", 8, 64), operand("mat2", 2, 2, 32, 4)), (operand("output", 8, 16),))),
    "cudnn recurrent": (10 * (32 * 3 + 32 * 8), OpKind(
        "", "aten._cudnn_rnn.default", {"mode": 2},
        (operand("input", 5, 2, 3), operand("weight[0]", 32, 3), operand("weight[1]", 32, 8), operand("hx", 1, 2, 8)),
        (operand("output", 5, 2, 8),))),
    "flash backward": (5 * 2 * 3 * 7 * 7 * 4, OpKind(
        "", "aten._flash_attention_backward.default", {"is_causal": False},
        tuple(operand(name, 2, 7, 3, 4) for name in ("grad_out", "query", "key", "value")), ())),
}  # fmt: skip


@pytest.mark.parametrize("case", KERNELS)
def test_kernels_that_this_machine_may_not_have(case: str) -> None:
    macs, kind = KERNELS[case]
    assert cost_of(kind).macs == macs


def test_a_product_of_two_sparse_tensors_is_unknown() -> None:
    ends = (operand("self", 8, 8, nnz=4), operand("mat2", 8, 8, nnz=4))
    cost = cost_of(OpKind("", "aten.mm.default", {}, ends, (operand("output", 8, 8, nnz=9),)))
    assert cost.macs is None
    assert "sparse" in cost.unknown


def test_packed_sequences_in_a_kernel_are_unknown() -> None:
    ends = tuple(operand(name, 30, 3, 4) for name in ("query", "key", "value"))
    cost = cost_of(OpKind("", "aten._flash_attention_forward.default", {}, ends, (ends[0],)))
    assert cost.macs is None
    assert "lengths" in cost.unknown
