"""Ops that are easy to miscount, each compared with MACs counted by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from counted import Calls, counted, executed, only
from torch import nn
from versions import require

SDPA = F.scaled_dot_product_attention


def _tokens(width: int = 64) -> torch.Tensor:
    return torch.randn(2, 32, width)


def _qkv(heads: int = 4, kv_heads: int = 4) -> tuple[torch.Tensor, ...]:
    return (
        torch.randn(2, heads, 16, 64),
        torch.randn(2, kv_heads, 16, 64),
        torch.randn(2, kv_heads, 16, 64),
    )


def _batched(*lead: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(*lead, 16, 64), torch.randn(*lead, 64, 16)


def _routed(router: nn.Module, experts: nn.ModuleList, x: torch.Tensor) -> torch.Tensor:
    """Route every token to the best two of four experts, in a loop over experts."""
    weights, chosen = router(x).softmax(-1).topk(2)
    out = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        rows, place = (chosen == number).nonzero(as_tuple=True)
        out.index_add_(0, rows, expert(x[rows]) * weights[rows, place, None])
    return out


def _cells(cell: nn.LSTMCell, x: torch.Tensor) -> torch.Tensor:
    state = None
    for step in x:
        state = cell(step, state)
    return state[0]


def _twice_or_once(first: nn.Module, second: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 1e9, lambda y: first(second(y)), lambda y: first(y), (x,))


def _flexible(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention(q, k, v)


def _quarter_full() -> torch.Tensor:
    dense = torch.zeros(64, 64)
    dense[:, ::4] = 1
    return dense.to_sparse()


def _autocast(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return layer(x)


def _checkpointed(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    from torch.utils.checkpoint import checkpoint

    return checkpoint(layer, x, use_reentrant=False)


def _int8(*shape: int) -> torch.Tensor:
    return torch.randint(-5, 5, shape, dtype=torch.int8)


def _square() -> nn.Linear:
    return nn.Linear(64, 64)


def _encoder() -> nn.Module:
    return nn.TransformerEncoderLayer(64, 4, dim_feedforward=128, batch_first=True)


def _attend(need_weights: bool) -> nn.Module:
    mha = nn.MultiheadAttention(64, 4, batch_first=True)
    return Calls(lambda inner, x: inner(x, x, x, need_weights=need_weights)[0], mha)


def _grouped() -> tuple[torch.Tensor, ...]:
    rows = torch.randn(64, 64, dtype=torch.bfloat16)
    return (
        rows,
        torch.randn(4, 64, 64, dtype=torch.bfloat16),
        torch.tensor([10, 30, 31, 64], dtype=torch.int32),
    )


CASES: dict[str, tuple[int, Callable[[], Any], Callable[[], Any]]] = {
    # name: MACs by hand, the model, its inputs
    "linear with bias": (32 * 64 * 192, lambda: nn.Linear(64, 192), lambda: torch.randn(2, 16, 64)),
    "linear without bias": (
        32 * 64 * 192, lambda: nn.Linear(64, 192, bias=False), lambda: torch.randn(2, 16, 64)),
    "functional linear": (
        32 * 64 * 192, lambda: F.linear, lambda: (torch.randn(2, 16, 64), torch.randn(192, 64))),
    "conv2d stride 2": (
        16 * 16 * 16 * 3 * 9, lambda: nn.Conv2d(3, 16, 3, 2, 1), lambda: torch.randn(1, 3, 32, 32)),
    "conv2d depthwise": (
        32 * 32 * 32 * 9, lambda: nn.Conv2d(32, 32, 3, padding=1, groups=32),
        lambda: torch.randn(1, 32, 32, 32)),
    "conv2d groups": (
        16 * 32 * 32 * 8 * 9, lambda: nn.Conv2d(32, 16, 3, padding=1, groups=4),
        lambda: torch.randn(1, 32, 32, 32)),
    "transposed conv2d": (
        32 * 16 * 16 * 32 * 4, lambda: nn.ConvTranspose2d(32, 32, 2, 2), lambda: torch.randn(1, 32, 16, 16)),
    "transposed conv2d groups": (
        32 * 16 * 16 * 8 * 4, lambda: nn.ConvTranspose2d(32, 32, 2, 2, groups=4),
        lambda: torch.randn(1, 32, 16, 16)),
    "conv1d": (2 * 8 * 30 * 4 * 3, lambda: nn.Conv1d(4, 8, 3), lambda: torch.randn(2, 4, 32)),
    "conv3d": (4 * 12**3 * 27, lambda: nn.Conv3d(1, 4, 3, padding=1), lambda: torch.randn(1, 1, 12, 12, 12)),
    "a @ b": (8 * 16 * 16 * 64, lambda: lambda a, b: a @ b, lambda: _batched(2, 4)),
    "matmul": (8 * 16 * 16 * 64, lambda: torch.matmul, lambda: _batched(2, 4)),
    "matmul broadcast": (
        8 * 16 * 16 * 64, lambda: torch.matmul, lambda: (torch.randn(2, 1, 16, 64), torch.randn(4, 64, 16))),
    "bmm": (8 * 16 * 16 * 64, lambda: torch.bmm, lambda: _batched(8)),
    "baddbmm": (8 * 16 * 16 * 64, lambda: torch.baddbmm, lambda: (torch.randn(8, 16, 16), *_batched(8))),
    "addmm": (16 * 16 * 64, lambda: torch.addmm, lambda: (torch.randn(16), *_batched())),
    "einsum scores": (
        8 * 16 * 16 * 64, lambda: lambda q, k: torch.einsum("bhid,bhjd->bhij", q, k), lambda: _qkv()[:2]),
    "einsum of three": (
        16 * 32 * 16 + 16 * 16 * 8,
        lambda: lambda a, b, c: torch.einsum("ij,jk,kl->il", a, b, c),
        lambda: (torch.randn(16, 32), torch.randn(32, 16), torch.randn(16, 8))),
    "tensordot": (
        4 * 8 * 128, lambda: lambda a, b: torch.tensordot(a, b, 2),
        lambda: (torch.randn(4, 8, 16), torch.randn(8, 16, 8))),
    "mv and dot": (
        64 * 64 + 64, lambda: lambda a, b: torch.dot(torch.mv(a, b), b),
        lambda: (torch.randn(64, 64), torch.randn(64))),
    "bilinear": (
        4 * 8 * 16 * 12, lambda: nn.Bilinear(16, 12, 8), lambda: (torch.randn(4, 16), torch.randn(4, 12))),
    "attention": (2 * 8 * 16 * 16 * 64, lambda: SDPA, _qkv),
    "causal attention": (2 * 8 * 16 * 16 * 64, lambda: lambda *x: SDPA(*x, is_causal=True), _qkv),
    "grouped-query attention": (
        2 * 8 * 16 * 16 * 64, lambda: lambda *x: SDPA(*x, enable_gqa=True), lambda: _qkv(4, 2)),
    "masked attention": (
        2 * 8 * 16 * 16 * 64, lambda: lambda q, k, v, m: SDPA(q, k, v, m),
        lambda: (*_qkv(), torch.randn(16, 16))),
    "multi-head, fused": (
        4 * 64 * 64**2 + 2 * 2 * 32 * 32 * 64, lambda: _attend(need_weights=False), _tokens),
    "multi-head, weights wanted": (
        4 * 64 * 64**2 + 2 * 2 * 32 * 32 * 64, lambda: _attend(need_weights=True), _tokens),
    "encoder layer": (4 * 64 * 64**2 + 2 * 2 * 32 * 32 * 64 + 2 * 64 * 64 * 128, _encoder, _tokens),
    "lstm, two layers, both ways": (
        16 * 2 * 512 * ((64 + 128) + (256 + 128)),
        lambda: nn.LSTM(64, 128, 2, bidirectional=True), lambda: torch.randn(8, 2, 64)),
    "gru": (16 * 384 * (64 + 128), lambda: nn.GRU(64, 128), lambda: torch.randn(8, 2, 64)),
    "lstm cell, eight steps": (
        8 * 2 * 256 * (32 + 64), lambda: Calls(_cells, nn.LSTMCell(32, 64)), lambda: torch.randn(8, 2, 32)),
    "embedding": (0, lambda: nn.Embedding(1000, 64), lambda: torch.arange(32)),
    "layer norm": (0, lambda: nn.LayerNorm(64), _tokens),
    "rms norm": (0, lambda: nn.RMSNorm(64), _tokens),
    "batch norm": (0, lambda: nn.BatchNorm2d(8), lambda: torch.randn(2, 8, 16, 16)),
    "softmax and gelu": (0, lambda: lambda x: F.gelu(x.softmax(-1)), _tokens),
    "interpolate": (
        0, lambda: lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        lambda: torch.randn(2, 3, 16, 16)),
    "rfft2": (0, lambda: torch.fft.rfft2, lambda: torch.randn(2, 3, 32, 32)),
    "complex matmul": (
        4 * 16 * 16 * 64, lambda: torch.matmul, lambda: tuple(x.to(torch.complex64) for x in _batched())),
    "routed experts, a loop": (
        64 * 64 * 4 + 2 * 64 * 64**2,
        lambda: Calls(_routed, nn.Linear(64, 4), nn.ModuleList(_square() for _ in range(4))),
        lambda: torch.randn(64, 64)),
    "routed experts, grouped": (64 * 64 * 64, lambda: torch._grouped_mm, _grouped),
    "scan": (
        0, lambda: lambda a, b, c, x: _scan(a, b, c, x),
        lambda: tuple(torch.randn(4, 2, 64, 16) for _ in range(4))),
    "one module called three times": (
        3 * 64**3, lambda: Calls(lambda layer, x: layer(layer(layer(x))), _square()), _tokens),
    "forward called directly": (64**3, lambda: Calls(lambda layer, x: layer.forward(x), _square()), _tokens),
    "weight norm": (64**3, lambda: nn.utils.parametrizations.weight_norm(_square()), _tokens),
    "scripted submodule": (64**3, lambda: nn.Sequential(torch.jit.script(_square())), _tokens),
    "checkpoint": (64**3, lambda: Calls(_checkpointed, _square()), _tokens),
    "autocast": (64**3, lambda: Calls(_autocast, _square()), _tokens),
    "cond, the shorter branch": (64**3, lambda: Calls(_twice_or_once, _square(), _square()), _tokens),
    "flex attention": (2 * 8 * 16 * 16 * 64, lambda: _flexible, _qkv),
    "int8 product": (32 * 64 * 64, lambda: torch._int_mm, lambda: (_int8(32, 64), _int8(64, 64))),
    "sparse product": (
        64 * 64 * 32 // 4, lambda: torch.sparse.mm, lambda: (_quarter_full(), torch.randn(64, 32))),
    "cdist": (32 * 64 * 16, lambda: torch.cdist, lambda: (torch.randn(32, 16), torch.randn(64, 16))),
}  # fmt: skip


def _scan(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    state = torch.zeros(2, 64, 16)
    for step in range(4):
        state = a[step] * state + b[step] * x[step]
        out = (state * c[step]).sum(-1)
    return out


SINCE = {
    "grouped-query attention": ("2.5", "enable_gqa"),
    "flex attention": ("2.5", "flex_attention"),
    "routed experts, grouped": ("2.8", "grouped_mm"),
}
"""The version of torch that introduced what a case needs."""


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("case", CASES)
def test_macs_by_hand(case: str) -> None:
    if case in SINCE:
        require("torch", *SINCE[case])
    macs, model, inputs = CASES[case]
    arguments = inputs()
    cost = counted(model(), *(arguments if isinstance(arguments, tuple) else (arguments,)))
    assert cost.macs == macs
    if case != "rfft2":
        assert cost.matrix_flops == 2 * macs


POINTWISE: dict[str, int] = {
    "linear with bias": 32 * 192,
    "linear without bias": 0,
    "baddbmm": 8 * 16 * 16,
    "embedding": 0,
    "layer norm": 8 * 2 * 32 * 64,
    "rms norm": 4 * 2 * 32 * 64,
    "batch norm": 2 * 2 * 8 * 16 * 16,
    "softmax and gelu": (5 + 5) * 2 * 32 * 64,
    "interpolate": 7 * 2 * 3 * 32 * 32,
    "scan": 5 * 4 * 2 * 64 * 16,
    "a @ b": 0,
}


@pytest.mark.parametrize("case", POINTWISE)
def test_pointwise_ops_by_hand(case: str) -> None:
    _, model, inputs = CASES[case]
    arguments = inputs()
    cost = counted(model(), *(arguments if isinstance(arguments, tuple) else (arguments,)))
    assert cost.pointwise_flops == POINTWISE[case]


def test_a_real_fft_is_two_and_a_half_n_log_n() -> None:
    cost = counted(torch.fft.rfft2, torch.randn(2, 3, 32, 32))
    assert cost.matrix_flops == 2.5 * 2 * 3 * 32 * 32 * 10 == 153_600
    assert counted(torch.fft.fft2, torch.randn(2, 3, 32, 32)).matrix_flops == 2 * 153_600


def test_causal_attention_needs_only_the_visible_pairs() -> None:
    cost = counted(lambda *x: SDPA(*x, is_causal=True), *_qkv())
    assert cost.matrix_flops == 2 * 2 * 8 * 16 * 16 * 64
    assert cost.needed_flops == 2 * 2 * 8 * (16 * 17 // 2) * 64
    assert counted(SDPA, *_qkv()).needed_flops == cost.matrix_flops


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_a_dynamically_quantised_linear_counts_its_packed_weight() -> None:
    model = torch.ao.quantization.quantize_dynamic(nn.Sequential(_square()), {nn.Linear}, dtype=torch.qint8)
    cost = counted(model, _tokens())
    assert cost.macs == 64**3
    assert cost.read_parameters == 64 * 64


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("groups", [1, 4])
def test_a_quantised_convolution_counts_like_the_float_one(groups: int) -> None:
    x = torch.randn(1, 8, 10, 10)
    qx = torch.quantize_per_tensor(x, 0.1, 0, torch.quint8)
    layer = torch.ao.nn.quantized.Conv2d(8, 12, 3, padding=1, groups=groups)
    cost = only(layer, qx, target="quantized.conv2d.new")
    assert cost.macs == 12 * 100 * (8 // groups) * 9
    assert cost.read_parameters == 12 * (8 // groups) * 9


def test_every_step_of_a_loop_is_recorded_and_counted() -> None:
    rows = executed(Calls(_cells, nn.LSTMCell(32, 64)), torch.randn(8, 2, 32))
    assert sum(cost.category == "Recurrent" for _, cost in rows) == 8
