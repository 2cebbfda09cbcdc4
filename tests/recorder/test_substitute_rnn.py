"""Recurrent layers keep their list of weights in step with the substitutes of a pass, and get their own back."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import assay


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_recurrent_layer_runs_on_its_substitutes_and_gets_its_weights_back(kind):
    model = kind(8, 8, 2).eval()
    before = list(model._flat_weights)
    document = assay.observe(model, torch.randn(3, 2, 8), dtype="float64")
    weights = [operand for op in document.kinds for operand in op.inputs if operand.role == "parameter"]
    assert {operand.type.dtype for operand in weights} == {"float64"}
    assert all(one is other for one, other in zip(model._flat_weights, before, strict=True))
    assert all(one is getattr(model, name) for one, name in zip(before, model._flat_weights_names, strict=True))
    assert model(torch.randn(3, 2, 8))[0].dtype == torch.float32


def test_the_weights_are_joined_once_and_not_in_every_pass(monkeypatch):
    joined = []
    original = nn.LSTM._init_flat_weights
    monkeypatch.setattr(nn.RNNBase, "_init_flat_weights", lambda self: (joined.append(1), original(self))[1])
    model = nn.LSTM(8, 8).eval()
    joined.clear()
    document = assay.profile(model, torch.randn(3, 2, 8), dtype="float64", passes=5)
    assert document.timing is not None
    # Once for each preparation of the model (recording, memory and timing), not for each of more than 15 passes.
    assert len(joined) <= 6
