"""Rules about how a model is built: each fires where it must and is silent at a near miss."""

from __future__ import annotations

import pytest
import torch
from finding_models import found, in_document, paths, values
from torch import nn
from torch.nn import functional as F

import assay

X = torch.ones(2, 8)
IMAGE = torch.ones(2, 3, 8, 8)


class Spare(nn.Module):
    """Two branches of which one is never called."""

    def __init__(self):
        super().__init__()
        self.used = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        self.spare = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4))
        self.mask = nn.Parameter(torch.zeros(5))

    def forward(self, x):
        for layer in self.used:
            x = layer(x)
        return x


def test_unused_parameters_are_named_and_counted():
    model = Spare()
    document = assay.observe(model, X)
    finding = in_document("S101", document)
    lost = [*model.spare.parameters(), model.mask]
    assert paths(document, finding) == ["", "spare"]
    assert values(finding)["unused_parameters"] == sum(p.numel() for p in lost)
    assert values(finding)["unused_bytes"] == sum(p.numel() * p.element_size() for p in lost)
    whole = sum(p.numel() for p in model.parameters())
    assert values(finding)["share_of_parameters"] == pytest.approx(sum(p.numel() for p in lost) / whole)
    assert "mask" in finding.title
    assert "spare" in finding.title


def test_parameters_used_without_a_call_of_their_module_are_used():
    class Borrowed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(8, 8)

        def forward(self, x):
            return F.linear(x, self.inner.weight.t(), self.inner.bias)

    assert found("S101", Borrowed(), X) is None
    assert found("S101", nn.MultiheadAttention(8, 2), (X[None], X[None], X[None])) is None


def test_an_expert_that_got_no_row_is_not_unused():
    class Routed(nn.Module):
        def __init__(self):
            super().__init__()
            self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

        def forward(self, x):
            return self.experts[1](x)

    assert found("S101", Routed(), X) is None


def test_what_runs_in_torchscript_may_be_used():
    class Holds(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.jit.script(nn.Linear(8, 8))

        def forward(self, x):
            return self.inner(x)

    assert found("S101", Holds(), X) is None


def test_a_pass_that_stopped_says_nothing_about_what_is_unused():
    class Breaks(Spare):
        def forward(self, x):
            self.used[0](x)
            raise RuntimeError("stop")

    document = assay.observe(Breaks(), X)
    assert not document.complete
    assert in_document("S101", document) is None


def test_tied_parameters():
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    assert found("S102", model, X) is None
    model[1].weight = model[0].weight
    finding = found("S102", model, X)
    assert values(finding) == {"tied_tensors": 1, "bytes_saved": 8 * 8 * 4}
    assert set(finding.tensors) == {"0.weight", "1.weight"}


@pytest.mark.parametrize(("rows", "fires"), [(20_000, True), (2_000, False)])
def test_an_embedding_that_holds_most_parameters(rows, fires):
    model = nn.Sequential(nn.Embedding(rows, 64), nn.Linear(64, 64))
    finding = found("S103", model, torch.ones(1, 4, dtype=torch.long))
    assert (finding is not None) == fires
    if fires:
        assert values(finding)["embedding_parameters"] == rows * 64
        assert values(finding)["share_of_parameters"] == pytest.approx(rows * 64 / (rows * 64 + 64 * 65))


def test_a_large_embedding_in_a_larger_model_is_in_proportion():
    model = nn.Sequential(nn.Embedding(20_000, 64), nn.Linear(64, 30_000))
    assert found("S103", model, torch.ones(1, 4, dtype=torch.long)) is None


class Often(nn.Module):
    def __init__(self, times, layer):
        super().__init__()
        self.layer, self.times = layer, times

    def forward(self, x):
        for _ in range(self.times):
            x = self.layer(x)
        return x


def test_a_module_called_often():
    document = assay.observe(Often(40, nn.Sequential(nn.Linear(8, 8))), X)
    finding = in_document("S104", document)
    assert values(finding) == {"calls": 40}
    assert paths(document, finding) == ["layer"]
    assert found("S104", Often(12, nn.Linear(8, 8)), X) is None
    assert found("S104", Often(40, nn.ReLU()), X) is None


class Stepped(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(8, 8)

    def forward(self, x):
        state = torch.zeros(x.shape[1], 8)
        for step in x:
            state = self.cell(step, state)
        return state


def test_a_cell_stepped_from_python():
    assert values(found("S105", Stepped(), torch.ones(12, 2, 8))) == {"steps": 12, "cells": 1}
    assert found("S104", Stepped(), torch.ones(40, 2, 8)) is None
    assert found("S105", Stepped(), torch.ones(3, 2, 8)) is None
    assert found("S105", nn.GRU(8, 8), torch.ones(12, 2, 8)) is None


class Mixture(nn.Module):
    def __init__(self, experts):
        super().__init__()
        self.top_k = 2
        self.router = nn.Linear(8, experts)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(experts))

    def forward(self, x):
        chosen = self.router(x)
        return sum(chosen[:, :1] * expert(x) for expert in self.experts)


def test_experts_and_what_a_token_uses():
    finding = found("S106", Mixture(4), X)
    each, router = 8 * 8 + 8, 8 * 4 + 4
    assert values(finding)["expert_parameters"] == 4 * each
    assert values(finding)["active_parameters"] == router + 2 * each
    assert values(finding)["experts_a_layer"] == 4
    assert found("S106", Mixture(1), X) is None
    assert found("S106", nn.Linear(8, 8), X) is None


class Dropping(nn.Module):
    def __init__(self, heeds):
        super().__init__()
        self.heeds = heeds

    def forward(self, x):
        return F.dropout(x, 0.5, training=self.training if self.heeds else True)


def test_dropout_that_does_not_heed_evaluation():
    assert values(found("S201", Dropping(heeds=False), X)) == {"active_dropouts": 1}
    assert found("S201", Dropping(heeds=True), X) is None
    assert found("S201", nn.Dropout(0.5), X) is None
    assert found("S201", Dropping(heeds=False), X, train=True) is None


def test_batch_statistics_in_evaluation():
    assert values(found("S202", nn.BatchNorm2d(3, track_running_stats=False), IMAGE)) == {"batch_norms": 1}
    assert found("S202", nn.BatchNorm2d(3), IMAGE) is None
    assert found("S202", nn.BatchNorm2d(3), IMAGE, train=True) is None


def blocks(bias=False, between=None):
    layers = [nn.Conv2d(3, 4, 3, bias=bias), nn.BatchNorm2d(4), nn.ReLU()]
    return nn.Sequential(*layers[:1], *([between] if between else []), *layers[1:])


def test_batch_norm_to_be_folded():
    model = nn.Sequential(blocks(), nn.Conv2d(4, 3, 1), blocks())
    document = assay.observe(model, IMAGE)
    finding = in_document("S203", document)
    assert paths(document, finding) == ["0.1", "2.1"]
    sizes = [2 * 4 * 6 * 6, 2 * 4 * 4 * 4]
    # Read and written once, with the four vectors of the normalisation.
    assert values(finding)["bytes_saved"] == sum(4 * (2 * size + 4 * 4) for size in sizes)


def test_batch_norm_that_cannot_be_folded():
    assert found("S203", blocks(between=nn.ReLU()), IMAGE) is None
    assert found("S203", blocks(), IMAGE, train=True) is None

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

        def forward(self, x):
            y = self.conv(x)
            return self.norm(y) + y

    assert found("S203", Both(), IMAGE) is None

    shared = nn.Conv2d(3, 3, 1, bias=False)
    twice = nn.Sequential(shared, nn.BatchNorm2d(3), nn.ReLU(), shared, nn.BatchNorm2d(3))
    assert found("S203", twice, IMAGE) is None


def test_bias_before_batch_norm():
    assert values(found("S204", blocks(bias=True), IMAGE)) == {"biases": 1, "parameters": 4}
    assert values(found("S204", blocks(bias=True), IMAGE, train=True)) == {"biases": 1, "parameters": 4}
    assert found("S204", blocks(bias=False), IMAGE) is None
    assert found("S204", blocks(bias=True, between=nn.ReLU()), IMAGE) is None


def test_the_bias_really_has_no_effect():
    torch.manual_seed(0)
    model = blocks(bias=True).train()
    x = torch.randn(4, 3, 8, 8)
    before = model(x)
    model[0].bias.data += 3.0
    torch.testing.assert_close(model(x), before, rtol=1e-4, atol=1e-5)
