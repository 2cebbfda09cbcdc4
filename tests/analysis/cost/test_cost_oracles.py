"""Formulas compared with independent counts: explicit loops, and the products that torch runs."""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.nn.functional as F
from counted import Dispatched, counted, only
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from versions import require

from assay.analysis.cost import cost_of
from assay.document.rows import Operand, OpKind, TensorType

FEW = settings(max_examples=25)
SIZES = {letter: size for size, letter in enumerate("abcdef", start=2)} | {"u": 1}
TERM = st.text(alphabet=list(SIZES), min_size=1, max_size=3).filter(lambda term: len(set(term)) == len(term))


def kind(target: str, inputs: dict[str, tuple[int, ...]], out: tuple[int, ...], **attributes: Any) -> OpKind:
    """A handmade kind of op."""
    operands = tuple(Operand(name, TensorType(shape, "float32")) for name, shape in inputs.items())
    return OpKind(target, target, attributes, operands, (Operand("output", TensorType(out, "float32")),))


def multiplied(equation: str, shapes: list[tuple[int, ...]], path: list[int] | None) -> int:
    """MACs of the batched products that torch runs for the equation."""
    with torch.no_grad(), Dispatched() as recorded:
        torch._C._VariableFunctions.einsum(equation, [torch.zeros(shape) for shape in shapes], path=path)
    products = [one.inputs for one in recorded.kinds if one.target == "aten.bmm.default"]
    return sum(a.type.shape[0] * a.type.shape[1] * a.type.shape[2] * b.type.shape[2] for a, b in products)


@FEW
@given(st.lists(TERM, min_size=2, max_size=4), st.data())
def test_einsum_counts_the_products_that_torch_runs(terms: list[str], data: st.DataObject) -> None:
    letters = sorted(set("".join(terms)))
    kept = "".join(data.draw(st.lists(st.sampled_from(letters), unique=True)))
    equation = f"{','.join(terms)}->{kept}"
    shapes = [tuple(SIZES[letter] for letter in term) for term in terms]
    path = None
    if data.draw(st.booleans()):
        path = [place for left in range(len(terms), 1, -1) for place in (0, left - 1)]
    inputs = {f"tensors[{place}]": shape for place, shape in enumerate(shapes)}
    out = tuple(SIZES[letter] for letter in kept)
    cost = cost_of(kind("aten.einsum.default", inputs, out, equation=equation, path=path))
    assert cost.macs == multiplied(equation, shapes, path)


def test_a_chain_of_four_is_contracted_left_to_right_without_a_path() -> None:
    equation, shapes = "ab,bc,cd,de->ae", [(2, 30), (30, 3), (3, 40), (40, 5)]
    inputs = {f"tensors[{place}]": shape for place, shape in enumerate(shapes)}
    cost = cost_of(kind("aten.einsum.default", inputs, (2, 5), equation=equation, path=None))
    assert cost.macs == multiplied(equation, shapes, None) == 2 * 30 * 3 + 2 * 3 * 40 + 2 * 40 * 5


def test_einsum_without_an_arrow_and_with_an_ellipsis() -> None:
    a, b = torch.randn(3, 5, 4, 6), torch.randn(5, 6, 7)
    assert counted(lambda x, y: torch.einsum("...ij,...jk", x, y), a, b).macs == 3 * 5 * 4 * 6 * 7
    assert counted(lambda x, y: torch.einsum("ij,jk", x, y), a[0, 0], b[0]).macs == 4 * 6 * 7
    assert counted(lambda x, y: torch.einsum("i,j->ij", x, y), a[0, 0, 0], b[0, 0]).macs == 0


@FEW
@given(
    st.integers(1, 2), st.sampled_from([1, 2]), st.integers(1, 2), st.integers(1, 2),
    st.integers(1, 3), st.integers(1, 2), st.integers(0, 1), st.integers(1, 2), st.booleans(),
)  # fmt: skip
def test_convolutions_agree_with_explicit_loops(
    batch: int, groups: int, into: int, out: int, size: int, stride: int, pad: int, dilate: int, transposed: bool
) -> None:
    layer = (nn.ConvTranspose2d if transposed else nn.Conv2d)(
        into * groups, out * groups, size, stride, padding=pad, dilation=dilate, groups=groups
    )
    x = torch.randn(batch, into * groups, 9, 8)
    made = layer(x)
    grid = x if transposed else made
    loops = 0
    for _ in itertools.product(range(batch), range(groups), range(into), range(out), range(size), range(size)):
        loops += grid.shape[2] * grid.shape[3]
    cost = counted(layer, x)
    assert cost.macs == loops
    assert cost.pointwise_flops == made.numel()


@FEW
@given(st.integers(1, 9), st.integers(1, 9))
def test_causal_masks_keep_the_same_pairs_as_torch(queries: int, keys: int) -> None:
    q, k = torch.randn(1, 2, queries, 4), torch.randn(1, 2, keys, 4)
    visible = int(torch.ones(queries, keys).tril().sum())
    cost = counted(lambda a, b: F.scaled_dot_product_attention(a, b, b, is_causal=True), q, k)
    assert cost.needed_flops == 2 * 2 * visible * (4 + 4)
    assert cost.macs == 2 * queries * keys * (4 + 4)


@FEW
@given(st.integers(1, 9), st.integers(1, 9))
def test_kernels_align_the_causal_mask_with_the_last_key(queries: int, keys: int) -> None:
    shapes = {"query": (1, queries, 2, 4), "key": (1, keys, 2, 4), "value": (1, keys, 2, 4)}
    flash = kind("aten._flash_attention_forward.default", shapes, (1, queries, 2, 4), is_causal=True)
    visible = int(torch.ones(queries, keys).tril(keys - queries).sum())
    assert cost_of(flash).needed_flops == 2 * 2 * visible * 8


def test_grouped_queries_cost_as_much_as_repeated_keys() -> None:
    q, k = torch.randn(2, 8, 5, 4), torch.randn(2, 2, 7, 4)
    require("torch", "2.5", "enable_gqa")
    grouped = counted(lambda a, b: F.scaled_dot_product_attention(a, b, b, enable_gqa=True), q, k)
    repeated = k.repeat_interleave(4, 1)
    assert grouped.macs == counted(F.scaled_dot_product_attention, q, repeated, repeated).macs


RNNS = {nn.LSTM: 4, nn.GRU: 3, nn.RNN: 1}


@FEW
@given(st.sampled_from(list(RNNS)), st.integers(1, 3), st.booleans(), st.booleans(), st.booleans())
def test_recurrent_layers_count_every_gate(
    cls: type[nn.RNNBase], depth: int, both: bool, bias: bool, first: bool
) -> None:
    layer = cls(3, 4, depth, bidirectional=both, bias=bias, batch_first=first)
    steps, ways = 5 * 2, 2 if both else 1
    macs = 0
    for level in range(depth):
        width = 3 if level == 0 else 4 * ways
        for _way, _gate, _unit in itertools.product(range(ways), range(RNNS[cls]), range(4)):
            macs += steps * (width + 4)
    assert counted(layer, torch.randn(5, 2, 3)).macs == macs


def test_a_projected_lstm_counts_its_projection() -> None:
    cost = counted(nn.LSTM(3, 8, 2, proj_size=2), torch.randn(5, 2, 3))
    assert cost.macs == 10 * (32 * 3 + 32 * 2 + 2 * 8 + 32 * 2 + 32 * 2 + 2 * 8)
    assert cost.pointwise_flops == 10 * 2 * 8 * 30


def test_packed_sequences_count_their_actual_steps() -> None:
    lengths = torch.tensor([5, 3, 2])

    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.LSTM(3, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.rnn(nn.utils.rnn.pack_padded_sequence(x, lengths))[1][0]

    cost = only(Packed(), torch.randn(5, 3, 3), target="aten.lstm.data")
    assert cost.macs == int(lengths.sum()) * 16 * (3 + 4)


CELLS = {nn.LSTMCell: 4, nn.GRUCell: 3, nn.RNNCell: 1}


@FEW
@given(st.sampled_from(list(CELLS)), st.integers(1, 4), st.integers(1, 5), st.integers(1, 5))
def test_cells_count_one_step(cls: type[nn.RNNCellBase], batch: int, width: int, hidden: int) -> None:
    cost = counted(cls(width, hidden), torch.randn(batch, width))
    assert cost.macs == batch * CELLS[cls] * hidden * (width + hidden)


@FEW
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.integers(1, 9))
def test_adaptive_pooling_counts_its_windows(high: int, wide: int, rows: int, columns: int) -> None:
    x = torch.zeros(1, 1, high, wide, requires_grad=True)
    made = F.adaptive_avg_pool2d(x, (rows, columns))
    windows = 0
    for cell in made.flatten():
        (grad,) = torch.autograd.grad(cell, x, retain_graph=True)
        windows += int((grad != 0).sum())
    assert counted(lambda y: F.adaptive_avg_pool2d(y, (rows, columns)), x.detach()).pointwise_flops == windows


@FEW
@given(st.lists(st.integers(1, 6), min_size=3, max_size=6))
def test_chains_use_the_cheapest_order(sizes: list[int]) -> None:
    def cheapest(low: int, high: int) -> int:
        cuts = range(low + 1, high)
        costs = (cheapest(low, at) + cheapest(at, high) + sizes[low] * sizes[at] * sizes[high] for at in cuts)
        return min(costs, default=0)

    matrices = [torch.randn(*pair) for pair in itertools.pairwise(sizes)]
    cost = counted(lambda *m: torch.linalg.multi_dot(m), *matrices)
    assert cost.macs == cheapest(0, len(sizes) - 1)


def test_the_cost_of_grouped_products_does_not_depend_on_the_group_sizes() -> None:
    cases = {  # the four forms: grouped rows, grouped columns, grouped length, a plain batch
        ((12, 8), (3, 8, 4)): 12 * 8 * 4,
        ((3, 12, 8), (8, 9)): 12 * 8 * 9,
        ((12, 30), (30, 4)): 12 * 30 * 4,
        ((3, 12, 8), (3, 8, 4)): 3 * 12 * 8 * 4,
    }
    for (left, right), macs in cases.items():
        grouped = kind("aten._grouped_mm.default", {"self": left, "mat2": right}, (1,))
        assert cost_of(grouped).macs == macs


def test_packed_float4_pairs_count_both_values() -> None:
    def operand(name: str, shape: tuple[int, ...]) -> Operand:
        return Operand(name, TensorType(shape, "float4_e2m1fn_x2"))

    out = (Operand("output", TensorType((16, 32), "bfloat16")),)
    ends = (operand("self", (16, 64)), operand("mat2", (64, 32)))
    cost = cost_of(OpKind("", "aten._scaled_mm.default", {}, ends, out))
    assert cost.macs == 16 * 32 * 128
    assert cost.read_activations == 16 * 64 + 64 * 32


def test_a_mixed_model_agrees_with_the_flop_counter_of_torch() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.deep = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, padding=1, groups=8)
            self.up, self.head = nn.ConvTranspose2d(8, 4, 2, 2), nn.Linear(4, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.up(F.relu(self.deep(F.relu(self.stem(x))))).flatten(2)
            mixed = torch.baddbmm(x, torch.bmm(x, x.transpose(1, 2)).softmax(-1), x)
            return self.head(mixed.mean(-1)) @ torch.ones(10, 2)

    x = torch.randn(2, 3, 16, 16)
    with torch.no_grad(), FlopCounterMode(display=False) as theirs:
        Mixed()(x)
    assert counted(Mixed(), x).matrix_flops == theirs.get_total_flops()
