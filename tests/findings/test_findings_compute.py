"""Rules about what a model computes: each fires on a model with the problem and not on a near miss."""

from __future__ import annotations

import pytest
import torch
from finding_models import finding_of, in_document, paths, values
from torch import nn
from torch.nn import functional as F

import assay

X = torch.ones(2, 8)


class Calls(nn.Module):
    """A module whose forward calls a function, with layers that the function can use."""

    def __init__(self, function, **layers):
        super().__init__()
        self.function = [function]
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, *inputs):
        return self.function[0](self, *inputs)


@pytest.mark.parametrize(
    ("function", "fires"),
    [
        (lambda m, x: F.softmax(x, -1).log(), True),
        (lambda m, x: torch.sigmoid(x).log().sum(), True),
        (lambda m, x: F.log_softmax(x, -1), False),
        (lambda m, x: F.softmax(x, -1) + x.log(), False),
        (lambda m, x: (F.softmax(x, -1) + 1e-6).log(), False),
    ],
)
def test_log_of_probabilities(function, fires):
    finding = finding_of("C101", Calls(function), X)
    assert (finding is not None) == fires
    if fires:
        assert values(finding) == {"executions": 1}


@pytest.mark.parametrize(
    ("function", "fires"),
    [
        (lambda m, x: F.softmax(F.softmax(x, -1), -1), True),
        (lambda m, x: F.relu(F.relu(x)), True),
        (lambda m, x: F.relu_(F.relu(x)), True),
        (lambda m, x: F.relu(F.relu(x) - 1), False),
        (lambda m, x: F.softmax(F.softmax(x, 0), 1), False),
        (lambda m, x: F.relu(x) + F.relu(x), False),
    ],
)
def test_the_same_activation_twice(function, fires):
    assert (finding_of("C102", Calls(function), X) is not None) == fires


def test_linear_layers_that_can_be_merged():
    document = assay.observe(nn.Sequential(nn.Linear(8, 32), nn.Linear(32, 4)), X)
    finding = in_document("C103", document)
    assert paths(document, finding) == ["0", "1"]
    assert values(finding)["matrix_flops_saved"] == 2 * 2 * (8 * 32 + 32 * 4 - 8 * 4)
    viewed = Calls(lambda m, x: m.b(m.a(x).view(2, 32)), a=nn.Linear(8, 32), b=nn.Linear(32, 4))
    assert values(finding_of("C103", viewed, X))["pairs"] == 1


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)),
        nn.Sequential(nn.Linear(8, 2, bias=False), nn.Linear(2, 8)),
        nn.Sequential(nn.Linear(8, 7, bias=False), nn.Linear(7, 8)),
        Calls(lambda m, x: m.b(y := m.a(x)) + y.sum(), a=nn.Linear(8, 32), b=nn.Linear(32, 4)),
    ],
    ids=["activation between", "low rank", "just below full rank", "read elsewhere"],
)
def test_linear_layers_that_cannot_be_merged(model):
    assert finding_of("C103", model, X) is None


def test_projections_of_the_same_input():
    layers = {name: nn.Linear(8, 8) for name in "qkv"}
    model = nn.Sequential(*(Calls(lambda m, x: m.q(x) + m.k(x) * m.v(x), **layers) for _ in range(3)))
    document = assay.observe(model, X)
    finding = in_document("C104", document)
    assert paths(document, finding) == ["0", "1", "2"]
    assert values(finding) == {"groups": 3, "products_saved": 6, "bytes_read_again": 6 * X.numel() * 4}
    chain = Calls(lambda m, x: m.v(m.k(m.q(x))), **{name: nn.Linear(8, 8) for name in "qkv"})
    assert finding_of("C104", chain, X) is None
    mixed = Calls(lambda m, x: m.q(x) + m.k(x), q=nn.Linear(8, 8), k=nn.Linear(8, 8, bias=False))
    assert finding_of("C104", mixed, X) is None


def lora(rank):
    layers = {"base": nn.Linear(8, 8), "a": nn.Linear(8, rank), "b": nn.Linear(rank, 8)}
    return nn.Sequential(Calls(lambda m, x: m.base(x) + m.b(m.a(x)) * 2, **layers))


@pytest.mark.parametrize(("rank", "fires"), [(2, False), (8, True)])
def test_an_adapter_is_not_fused_with_the_layer_it_adapts(rank, fires):
    assert (finding_of("C104", lora(rank), X) is not None) == fires


def test_low_rank_projections_of_the_same_input_can_be_fused():
    layers = {"q": nn.Linear(8, 2), "k": nn.Linear(8, 3), "up": nn.Linear(2, 5)}
    model = nn.Sequential(Calls(lambda m, x: m.up(m.q(x)).sum() + m.k(x), **layers))
    assert values(finding_of("C104", model, X))["products_saved"] == 1


def test_experts_are_not_fused():
    class Dense(nn.Module):
        def __init__(self, name):
            super().__init__()
            self.add_module(name, nn.ModuleList(nn.Linear(8, 8) for _ in range(3)))

        def forward(self, x):
            return sum(each(x) for each in next(self.children()))

    assert finding_of("C104", nn.Sequential(Dense("experts")), X) is None
    assert values(finding_of("C104", nn.Sequential(Dense("heads")), X))["products_saved"] == 2


@pytest.mark.parametrize(
    ("function", "fires"),
    [
        (lambda m, x: x.to(torch.bfloat16).to(torch.float32) + 1, True),
        (lambda m, x: x.to(torch.bfloat16).to(torch.float64) + 1, False),
        (lambda m, x: (x.to(torch.bfloat16) * 2).to(torch.float32), False),
        (lambda m, x: x.to(torch.float32).to(torch.float32), False),
        (lambda m, x: x.to(torch.int32).to(torch.float32), False),
        (lambda m, x: x.to(torch.bool).to(torch.float32), False),
    ],
)
def test_casts_there_and_back(function, fires):
    finding = finding_of("C105", Calls(function), X)
    assert (finding is not None) == fires
    if fires:
        assert values(finding) == {"round_trips": 1, "bytes": 2 * X.numel() * (4 + 2)}


def test_a_few_modules_do_most_of_the_flops():
    model = nn.Sequential(*(nn.Linear(8, 8, bias=False) for _ in range(11)), nn.Linear(8, 512, bias=False))
    document = assay.observe(model, X)
    finding = in_document("C201", document)
    assert paths(document, finding) == ["11"]
    assert values(finding)["share_of_flops"] == pytest.approx(8 * 512 / (8 * 512 + 11 * 64))
    assert finding_of("C201", nn.Sequential(*(nn.Linear(8, 8) for _ in range(20))), X) is None


def test_equal_layers_are_reported_together_or_not_at_all():
    small = [nn.Linear(8, 8, bias=False) for _ in range(20)]
    large = [nn.Linear(64, 64, bias=False) for _ in range(4)]
    model = nn.Sequential(*small, nn.Linear(8, 64, bias=False), *large)
    assert finding_of("C201", model, X) is None


def test_share_of_weights_in_the_bytes():
    model = nn.Linear(1024, 1024, bias=False)
    finding = finding_of("C202", model, torch.ones(1, 1024))
    assert values(finding)["bytes_of_weights"] == 4 << 20
    assert values(finding)["share_of_bytes"] == pytest.approx(1024 / 1026)
    assert finding_of("C202", model, torch.ones(4096, 1024), mode="meta") is None
    assert finding_of("C202", nn.Linear(64, 64), torch.ones(1, 64)) is None


def test_results_between_pointwise_ops():
    x = torch.ones(256, 1024)
    model = nn.Sequential(nn.Linear(1024, 1024, bias=False), nn.GELU(), nn.Sigmoid())
    moved, weight = 4 * x.numel() * 4, 4 << 20
    product = 2 * x.numel() * 4 + weight
    finding = finding_of("C203", model, x)
    assert values(finding)["operations"] == 2
    # The result of GELU is written and read once.
    assert values(finding)["share_of_bytes"] == pytest.approx(2 * x.numel() * 4 / (moved + product))
    assert finding_of("C203", nn.Linear(1024, 1024), x) is None
    assert finding_of("C203", nn.Sequential(nn.GELU(), nn.Sigmoid()), X) is None


def test_share_of_copies_in_the_bytes():
    x = torch.ones(512, 512)
    document = assay.observe(Calls(lambda m, x: x.t().contiguous() + 1), x)
    finding = in_document("C204", document)
    assert values(finding)["bytes"] == 2 * x.numel() * 4
    assert values(finding)["share_of_bytes"] == pytest.approx(0.5)
    assert "contiguous" in finding.title
    assert finding_of("C204", Calls(lambda m, x: x.t() + 1), x) is None


def test_many_small_ops():
    def many(times):
        return Calls(lambda m, x: sum(x + step for step in range(times)))

    finding = finding_of("C205", many(400), X)
    assert values(finding)["small_operations"] == 800
    assert finding.evidence["start_time_s"].how.__class__.__name__ == "Modelled"
    assert finding_of("C205", many(100), X) is None
    assert finding_of("C205", many(400), torch.ones(200, 200), mode="meta") is None


def test_float64():
    layers = nn.Linear(8, 8)
    finding = finding_of("C206", Calls(lambda m, x: m.l(x) + (x.double() * 2).sum(), l=layers), X)
    assert values(finding)["operations"] == 1
    assert values(finding)["flops"] == X.numel()
    assert finding_of("C206", Calls(lambda m, x: m.l(x) * 2.0, l=layers), X) is None
    assert finding_of("C206", nn.Linear(8, 8).double(), X.double()) is None


@pytest.mark.parametrize(
    ("features", "dtype", "fires"), [(70, "bfloat16", True), (72, "bfloat16", False), (70, "", False)]
)
def test_sizes_that_are_not_aligned_for_tensor_cores(features, dtype, fires):
    x = torch.ones(4, 64)
    finding = finding_of("C301", nn.Linear(64, features), x, dtype=dtype or None)
    assert (finding is not None) == fires
    if fires:
        assert values(finding)["share_of_flops"] == 1
        assert "70" in finding.title


@pytest.mark.parametrize(("rows", "fires"), [(8_200, True), (8_192, False), (1_001, False)])
def test_a_vocabulary_that_is_not_a_multiple_of_64(rows, fires):
    finding = finding_of("C302", nn.Linear(16, rows, bias=False), torch.ones(1, 16))
    assert (finding is not None) == fires
    if fires:
        padded = next(size for size in range(rows, rows + 64) if size % 64 == 0)
        assert values(finding)["padded_rows"] == padded
        assert values(finding)["bytes_added"] == (padded - rows) * 16 * 4


def test_grouped_convolutions():
    image = torch.ones(1, 64, 16, 16)
    deep = nn.Conv2d(64, 64, 3, padding=1, groups=64, bias=False)
    points = [nn.Conv2d(64, 64, 1, bias=False) for _ in range(2)]
    finding = finding_of("C303", nn.Sequential(deep, *points), image)
    work, point = 9 * 64 * 256, 2 * 64 * 64 * 256
    assert values(finding)["share_of_flops"] == pytest.approx(work / (work + point))
    assert finding_of("C303", nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.Conv2d(64, 64, 1)), image) is None


def test_depthwise_convolutions_among_dense_ones():
    def block(channels):
        deep = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        return nn.Sequential(nn.Conv2d(channels, channels, 1, bias=False), deep, nn.ReLU())

    image = torch.ones(1, 32, 28, 28)
    assert values(finding_of("C303", nn.Sequential(*(block(32) for _ in range(4))), image))["convolutions"] == 4
    dense = nn.Conv2d(32, 32, 3, padding=1, groups=2, bias=False)  # 16 channels per group: 36 FLOPs per byte
    assert finding_of("C303", nn.Sequential(nn.Conv2d(32, 32, 1), dense), image) is None


def test_large_kernels():
    image = torch.ones(1, 8, 16, 16)
    finding = finding_of("C304", nn.Conv2d(8, 8, 9, padding=4, bias=False), image)
    assert values(finding) == {"kernel_elements": 81, "flops": 2 * 81 * 8 * 8 * 256, "share_of_flops": 1}
    for kept in (
        nn.Conv2d(8, 8, 3, padding=1),
        nn.Conv2d(8, 8, 9, padding=4, groups=8),
        nn.Conv2d(8, 8, 8, stride=8),
    ):
        assert finding_of("C304", kept, image) is None
    assert finding_of("C304", nn.Conv2d(3, 8, 7, stride=2), torch.ones(1, 3, 16, 16)) is None


def attention(scores=lambda s: s, weights=lambda w: w):
    def run(model, q, k, v):
        return weights(F.softmax(scores(q @ k.transpose(-2, -1) / 4), -1)) @ v

    return Calls(run)


QKV = (torch.ones(2, 3, 5, 16), torch.ones(2, 3, 5, 16), torch.ones(2, 3, 5, 16))
MASK = torch.zeros(5, 5)


@pytest.mark.parametrize(
    "model",
    [
        attention(),
        attention(lambda s: s + MASK, lambda w: F.dropout(w, 0.1, training=False)),
        attention(lambda s: s.masked_fill(MASK.bool(), -1e9), lambda w: w.to(torch.float32)),
        Calls(
            lambda m, q, k, v: torch.einsum("bhij,bhjd->bhid", torch.einsum("bhid,bhjd->bhij", q, k).softmax(-1), v)
        ),
    ],
    ids=["plain", "masked", "filled", "einsum"],
)
def test_attention_without_sdpa(model):
    finding = finding_of("C401", model, QKV)
    assert values(finding)["attentions"] == 1
    assert values(finding)["score_bytes"] == 2 * 3 * 5 * 5 * 4


@pytest.mark.parametrize(
    "model",
    [
        Calls(lambda m, q, k, v: F.scaled_dot_product_attention(q, k, v)),
        attention(lambda s: s.tanh() * 30),
        Calls(lambda m, q, k, v: F.softmax(q, -1) @ v.transpose(-2, -1)),
        Calls(lambda m, q, k, v: F.softmax(q @ k.transpose(-2, -1), -1)),
    ],
    ids=["fused", "soft cap", "no scores", "no values"],
)
def test_near_misses_of_attention_without_sdpa(model):
    assert finding_of("C401", model, QKV) is None


@pytest.mark.parametrize(("size", "fires"), [(12, True), (264, True), (16, False), (256, False)])
def test_head_sizes(size, fires):
    inputs = tuple(torch.ones(1, 2, 4, size) for _ in range(3))
    finding = finding_of("C402", Calls(lambda m, q, k, v: F.scaled_dot_product_attention(q, k, v)), inputs)
    assert (finding is not None) == fires
    if fires:
        assert values(finding) == {"head_size": size, "attentions": 1}


def test_a_dense_attention_mask():
    masked = Calls(lambda m, q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=MASK))
    assert values(finding_of("C403", masked, QKV)) == {"attentions": 1}
    causal = Calls(lambda m, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    assert finding_of("C403", causal, QKV) is None
