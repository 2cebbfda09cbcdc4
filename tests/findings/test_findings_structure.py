"""Rules about how a model is built: each fires on a model with the problem and not on a near miss."""

from __future__ import annotations

import pytest
import torch
from finding_models import finding_of, in_document, paths, values
from torch import nn
from torch.nn import functional as F

import assay

X = torch.ones(2, 8)
IMAGE = torch.ones(2, 3, 8, 8)


class Spare(nn.Module):
    """Two branches, one of which is never called."""

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


def test_parameters_read_without_a_call_of_their_module_are_used():
    class Borrowed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(8, 8)

        def forward(self, x):
            return F.linear(x, self.inner.weight.t(), self.inner.bias)

    assert finding_of("S101", Borrowed(), X) is None
    assert finding_of("S101", nn.MultiheadAttention(8, 2), (X[None], X[None], X[None])) is None


def test_an_expert_that_received_no_rows_is_not_unused():
    class Routed(nn.Module):
        def __init__(self):
            super().__init__()
            self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

        def forward(self, x):
            return self.experts[1](x)

    assert finding_of("S101", Routed(), X) is None


def test_parameters_that_torchscript_reads_are_not_reported():
    class Holds(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.jit.script(nn.Linear(8, 8))

        def forward(self, x):
            return self.inner(x)

    assert finding_of("S101", Holds(), X) is None


def test_an_incomplete_pass_reports_no_unused_parameters():
    class Breaks(Spare):
        def forward(self, x):
            self.used[0](x)
            raise RuntimeError("stop")

    document = assay.observe(Breaks(), X)
    assert not document.complete
    assert in_document("S101", document) is None


def test_tied_parameters():
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    assert finding_of("S102", model, X) is None
    model[1].weight = model[0].weight
    finding = finding_of("S102", model, X)
    assert values(finding) == {"tied_tensors": 1, "bytes_saved": 8 * 8 * 4}
    assert set(finding.tensors) == {"0.weight", "1.weight"}


@pytest.mark.parametrize(("rows", "fires"), [(20_000, True), (2_000, False)])
def test_an_embedding_with_most_of_the_parameters(rows, fires):
    model = nn.Sequential(nn.Embedding(rows, 64), nn.Linear(64, 64))
    finding = finding_of("S103", model, torch.ones(1, 4, dtype=torch.long))
    assert (finding is not None) == fires
    if fires:
        assert values(finding)["embedding_parameters"] == rows * 64
        assert values(finding)["share_of_parameters"] == pytest.approx(rows * 64 / (rows * 64 + 64 * 65))


def test_a_large_embedding_in_a_larger_model_is_not_reported():
    model = nn.Sequential(nn.Embedding(20_000, 64), nn.Linear(64, 30_000))
    assert finding_of("S103", model, torch.ones(1, 4, dtype=torch.long)) is None


class Often(nn.Module):
    def __init__(self, times, layer):
        super().__init__()
        self.layer, self.times = layer, times

    def forward(self, x):
        for _ in range(self.times):
            x = self.layer(x)
        return x


def test_a_module_called_many_times():
    document = assay.observe(Often(40, nn.Sequential(nn.Linear(8, 8))), X)
    finding = in_document("S104", document)
    assert values(finding) == {"calls": 40}
    assert paths(document, finding) == ["layer"]
    assert finding_of("S104", Often(12, nn.Linear(8, 8)), X) is None
    assert finding_of("S104", Often(40, nn.ReLU()), X) is None


class Stepped(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(8, 8)

    def forward(self, x):
        state = torch.zeros(x.shape[1], 8)
        for step in x:
            state = self.cell(step, state)
        return state


def test_a_cell_called_step_by_step():
    assert values(finding_of("S105", Stepped(), torch.ones(12, 2, 8))) == {"steps": 12, "cells": 1}
    assert finding_of("S104", Stepped(), torch.ones(40, 2, 8)) is None
    assert finding_of("S105", Stepped(), torch.ones(3, 2, 8)) is None
    assert finding_of("S105", nn.GRU(8, 8), torch.ones(12, 2, 8)) is None


class Mixture(nn.Module):
    def __init__(self, experts):
        super().__init__()
        self.top_k = 2
        self.router = nn.Linear(8, experts)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(experts))

    def forward(self, x):
        chosen = self.router(x)
        return sum(chosen[:, :1] * expert(x) for expert in self.experts)


def test_experts_and_the_active_parameters_per_token():
    finding = finding_of("S106", Mixture(4), X)
    each, router = 8 * 8 + 8, 8 * 4 + 4
    assert values(finding)["expert_parameters"] == 4 * each
    assert values(finding)["active_parameters"] == router + 2 * each
    assert values(finding)["experts_a_layer"] == 4
    assert finding_of("S106", Mixture(1), X) is None
    assert finding_of("S106", nn.Linear(8, 8), X) is None


class Dropping(nn.Module):
    def __init__(self, uses_mode):
        super().__init__()
        self.uses_mode = uses_mode

    def forward(self, x):
        return F.dropout(x, 0.5, training=self.training if self.uses_mode else True)


def test_dropout_that_is_active_in_evaluation_mode():
    assert values(finding_of("S201", Dropping(uses_mode=False), X)) == {"active_dropouts": 1}
    assert finding_of("S201", Dropping(uses_mode=True), X) is None
    assert finding_of("S201", nn.Dropout(0.5), X) is None
    assert finding_of("S201", Dropping(uses_mode=False), X, train=True) is None


def test_batch_statistics_in_evaluation_mode():
    assert values(finding_of("S202", nn.BatchNorm2d(3, track_running_stats=False), IMAGE)) == {"batch_norms": 1}
    assert finding_of("S202", nn.BatchNorm2d(3), IMAGE) is None
    assert finding_of("S202", nn.BatchNorm2d(3), IMAGE, train=True) is None


def blocks(bias=False, between=None):
    layers = [nn.Conv2d(3, 4, 3, bias=bias), nn.BatchNorm2d(4), nn.ReLU()]
    return nn.Sequential(*layers[:1], *([between] if between else []), *layers[1:])


def test_batch_norm_that_can_be_folded():
    model = nn.Sequential(blocks(), nn.Conv2d(4, 3, 1), blocks()).eval()
    document = assay.observe(model, IMAGE)
    finding = in_document("S203", document)
    assert paths(document, finding) == ["0.1", "2.1"]
    sizes = [2 * 4 * 6 * 6, 2 * 4 * 4 * 4]
    # The activations are read and written once; the BatchNorm reads four vectors.
    assert values(finding)["bytes_saved"] == sum(4 * (2 * size + 4 * 4) for size in sizes)


def test_batch_norm_that_cannot_be_folded():
    assert finding_of("S203", blocks(between=nn.ReLU()), IMAGE) is None
    assert finding_of("S203", blocks(), IMAGE, train=True) is None

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

        def forward(self, x):
            y = self.conv(x)
            return self.norm(y) + y

    assert finding_of("S203", Both(), IMAGE) is None

    shared = nn.Conv2d(3, 3, 1, bias=False)
    twice = nn.Sequential(shared, nn.BatchNorm2d(3), nn.ReLU(), shared, nn.BatchNorm2d(3))
    assert finding_of("S203", twice, IMAGE) is None


def test_bias_before_batch_norm():
    assert values(finding_of("S204", blocks(bias=True), IMAGE)) == {"biases": 1, "parameters": 4}
    assert values(finding_of("S204", blocks(bias=True), IMAGE, train=True)) == {"biases": 1, "parameters": 4}
    assert finding_of("S204", blocks(bias=False), IMAGE) is None
    assert finding_of("S204", blocks(bias=True, between=nn.ReLU()), IMAGE) is None


def test_the_bias_really_has_no_effect():
    torch.manual_seed(0)
    model = blocks(bias=True).train()
    x = torch.randn(4, 3, 8, 8)
    before = model(x)
    model[0].bias.data += 3.0
    torch.testing.assert_close(model(x), before, rtol=1e-4, atol=1e-5)
