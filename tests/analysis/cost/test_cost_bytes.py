"""Logical bytes: storages and broadcasts count once, views are free, lookups count the selected rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from counted import counted, only
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from assay.analysis.cost import KindCost, cost_of
from assay.analysis.cost.bytes import distinct
from assay.document.dtypes import BITS, nbytes
from assay.document.rows import Operand, OpKind, TensorType


def moved(cost: KindCost) -> tuple[int, int, int]:
    return cost.read_parameters, cost.read_activations, cost.written


def test_parameters_and_activations_are_separate() -> None:
    cost = counted(nn.Linear(6, 5), torch.randn(3, 6))
    assert moved(cost) == (4 * (6 * 5 + 5), 4 * 3 * 6, 4 * 3 * 5)
    assert cost.intensity == pytest.approx((2 * 90 + 15) / (140 + 72 + 60))


def test_buffers_are_read_as_parameters() -> None:
    cost = counted(nn.BatchNorm2d(8), torch.randn(2, 8, 4, 4))
    assert moved(cost) == (4 * 8 * 4, 4 * 256, 4 * 256)


def test_one_storage_is_read_once() -> None:
    x = torch.randn(4, 4)
    assert moved(counted(lambda y: y * y, x)) == (0, 64, 64)
    assert counted(lambda y: y @ y.t(), x).read_activations == 64


def test_every_third_of_a_fused_projection_is_read() -> None:
    def attend(qkv: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(2, 7, 4, 8).transpose(1, 2) for part in qkv.chunk(3, -1))
        return F.scaled_dot_product_attention(q, k, v)

    cost = only(attend, torch.randn(2, 7, 96), target="aten.scaled_dot_product_attention.default")
    assert cost.read_activations == 4 * 2 * 7 * 96


def test_a_broadcast_dimension_is_read_once() -> None:
    cost = counted(lambda x: x.expand(5, 4) + 1, torch.randn(4))
    assert moved(cost) == (0, 16, 80)
    spaced = counted(lambda x: x[::2, None].expand(3, 4) + 1, torch.randn(6))
    assert moved(spaced) == (0, 12, 48)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.view(8, 2), lambda x: x.t(), lambda x: x[1:], lambda x: x.expand(3, 4, 4),
        lambda x: x.reshape(16),
        lambda x: x.chunk(2), lambda x: x.unsqueeze(0), lambda x: x.detach(), lambda x: x.contiguous(),
        lambda x: F.dropout(x, training=False), lambda x: x.to(torch.float32),
    ],
)  # fmt: skip
def test_views_are_free(view: Any) -> None:
    cost = counted(view, torch.randn(4, 4))
    assert moved(cost) == (0, 0, 0)
    assert cost.flops == 0


def test_copies_are_not_free() -> None:
    assert moved(counted(lambda x: x.t().contiguous(), torch.randn(4, 4))) == (0, 64, 64)
    assert moved(counted(lambda x: x.t().reshape(16), torch.randn(4, 4))) == (0, 64, 64)
    assert moved(counted(lambda x: x.to(torch.float64), torch.randn(4, 4))) == (0, 64, 128)


def test_in_place_reads_and_writes_its_operand() -> None:
    assert moved(counted(lambda x, y: x.clone().add_(y), torch.randn(8), torch.randn(8))) == (0, 96, 64)
    assert moved(only(lambda x: x.clone().zero_(), torch.randn(8), target="aten.zero_.default")) == (0, 0, 32)
    copy = only(lambda x, y: x.clone().copy_(y), torch.randn(8), torch.randn(8), target="aten.copy_.default")
    assert moved(copy) == (0, 32, 32)


def test_an_out_tensor_is_not_read() -> None:
    cost = only(lambda x: torch.add(x, 1, out=torch.empty(8)), torch.randn(8), target="aten.add.out")
    assert moved(cost) == (0, 32, 32)


def test_factories_only_write() -> None:
    assert moved(counted(lambda x: torch.zeros_like(x), torch.randn(8))) == (0, 0, 32)
    assert moved(counted(lambda x: x.new_ones(3), torch.randn(8))) == (0, 0, 12)
    assert moved(counted(lambda x: torch.arange(5), torch.randn(8))) == (0, 0, 40)
    assert moved(counted(lambda x: torch.empty(5), torch.randn(8))) == (0, 0, 0)


def test_lookups_read_only_the_selected_rows() -> None:
    cost = counted(nn.Embedding(1000, 16), torch.arange(6))
    assert moved(cost) == (4 * 6 * 16, 8 * 6, 4 * 6 * 16)
    table, at = torch.randn(1000, 16), torch.tensor([3, 5])
    assert moved(counted(lambda t, i: t[i], table, at)) == (0, 2 * 64 + 16, 2 * 64)
    assert moved(counted(lambda t, i: t.index_select(0, i), table, at)) == (0, 2 * 64 + 16, 2 * 64)
    bag = nn.EmbeddingBag(1000, 16, mode="sum")
    assert counted(bag, torch.arange(6).view(2, 3)).read_parameters == 4 * 6 * 16


def test_a_small_table_is_read_only_once() -> None:
    assert counted(nn.Embedding(3, 16), torch.zeros(50, dtype=torch.long)).read_parameters == 4 * 3 * 16


def test_scatters_access_only_the_rows_they_write() -> None:
    base, rows, at = torch.randn(100, 4), torch.randn(2, 4), torch.tensor([7, 9])

    def add(t: torch.Tensor, i: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        return t.clone().index_add_(0, i, r)

    def put(t: torch.Tensor, i: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        fresh = t.clone()
        fresh[i] = r
        return fresh

    assert moved(only(add, base, at, rows, target="aten.index_add_.default")) == (0, 32 + 32 + 16, 32)
    assert moved(only(put, base, at, rows, target="aten.index_put_.default")) == (0, 32 + 16, 32)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_sparse_tensors_move_their_stored_elements_and_indices() -> None:
    coo = torch.eye(8).to_sparse()
    cost = counted(torch.sparse.mm, coo, torch.randn(8, 4))
    assert cost.read_activations == 8 * 4 + 8 * 2 * 8 + 8 * 4 * 4
    csr = torch.eye(8).to_sparse_csr()
    assert counted(torch.mv, csr, torch.randn(8)).read_activations == 8 * 4 + 8 * (8 + 9) + 32


def test_the_size_of_every_torch_dtype_is_known() -> None:
    dtypes = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    packed = {"quint4x2": 4, "quint2x4": 2}
    for dtype in dtypes:
        name = str(dtype).removeprefix("torch.")
        low = name.removeprefix("u").removeprefix("int")
        expected = packed.get(name, int(low) if low in "1234567" else dtype.itemsize * 8)
        assert BITS[name] == expected, name
    assert nbytes(3, "int4") == 2


@settings(max_examples=80)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.data())
def test_distinct_elements_are_those_at_different_addresses(shape: list[int], data: st.DataObject) -> None:
    """Exact if strides do not interleave; otherwise at least the true count and at most the span."""
    strides = data.draw(st.lists(st.integers(0, 5), min_size=len(shape), max_size=len(shape)))
    tensor = torch.as_strided(torch.arange(64), shape, strides)
    count = distinct(TensorType(tuple(shape), "int64", tuple(strides)))
    actual = int(tensor.unique().numel())
    assert actual <= count <= max(int(tensor.max()) + 1, actual)


def test_mutated_inputs_without_outputs_are_written() -> None:
    pair = TensorType((10,), "float32")
    operands = tuple(
        Operand(f"{name}[{place}]", pair, written=name == "self") for name in ("self", "other") for place in (0, 1)
    )
    cost = cost_of(OpKind("", "aten._foreach_add_.List", {"alpha": 1}, operands, ()))
    assert moved(cost) == (0, 160, 80)
    assert cost.pointwise_flops == 20
