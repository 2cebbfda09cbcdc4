"""The backward pass: the ops that torch runs, attributed to the right modules, without changing gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from assay import observe


def mlp():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 4)))


@pytest.mark.parametrize("mode", ["real", "meta"])
def test_a_linear_layer_costs_twice_its_forward(mode):
    document = observe(mlp(), torch.randn(8, 16), mode=mode, backward=True)
    cost = document.cost
    figures = dict(zip([module.path for module in document.modules], cost.modules, strict=True))
    assert figures["2.0"].backward.macs == 2 * figures["2.0"].own.macs == 2 * 8 * 32 * 32
    assert figures["2.1"].backward.macs == 2 * figures["2.1"].own.macs
    assert figures["0"].backward.macs == figures["0"].own.macs, "the model's input needs no gradient"
    assert cost.backward.macs == sum(entry.backward.macs for entry in cost.modules)


def test_ops_are_those_of_a_plain_backward_pass():
    from recorder.bare import Bare

    model, x = mlp(), torch.randn(8, 16)
    document = observe(model, x, backward=True)
    targets = [document.training.kinds[op.kind].target for op in document.training.ops if op.phase == "backward"]
    y, ones = mlp().train()(x), torch.ones(8, 4)
    counter = Bare()
    with counter:
        torch.autograd.backward([y], [ones])
    assert targets == counter.targets


def test_the_users_gradients_do_not_change():
    model = mlp()
    model[0].weight.grad = before = torch.ones(32, 16)
    document = observe(model, torch.randn(8, 16), backward=True)
    assert model[0].weight.grad is before
    assert torch.equal(before, torch.ones(32, 16))
    assert model[0].bias.grad is None
    gradients = sum(row.bytes for row in document.training.storages if row.role == "gradient")
    assert gradients == sum(4 * parameter.numel() for parameter in model.parameters())


def test_a_frozen_model_runs_as_if_trainable_with_a_note():
    model = mlp().requires_grad_(False)
    document = observe(model, torch.randn(8, 16), backward=True)
    assert document.cost.backward.macs > 0
    assert "no parameter is trainable" in document.run.assumptions[0]
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_a_model_without_differentiable_output_has_a_backward_failure():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            return self.layer(x).argmax(-1)

    document = observe(Counts(), torch.randn(2, 4), backward=True)
    assert document.training is None
    assert document.cost.backward is None
    assert document.run.backward_failure is not None
    assert not document.run.backward


def test_a_shared_module_gets_the_cost_of_both_calls():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            return self.layer(self.layer(x).relu())

    document = observe(Twice(), torch.randn(2, 4), backward=True)
    assert document.cost.modules[1].own.macs == 2 * 2 * 16
    assert document.cost.modules[1].backward.macs == 3 * 2 * 16
