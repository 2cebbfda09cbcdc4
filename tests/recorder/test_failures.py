"""When forward fails: what was learned is kept, and the error says where, what was wanted and given."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from assay.errors import InputsError, UsageError
from assay.recorder import passes


def test_partial_result_names_module_and_operation():
    model = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.ReLU(), nn.Linear(7, 2)))
    shown = passes.observe(model, (torch.randn(3, 4),), {}, mode="real")
    assert shown.failure is not None
    assert (shown.failure.module, shown.failure.module_class) == ("1.1", "Linear")
    assert shown.failure.op == "aten.linear.default"
    assert "wants … x 7, got 3x8 float32" in shown.failure.error
    assert [shown.kinds[op.kind].target for op in shown.ops] == ["aten.linear.default", "aten.relu.default"]
    assert [call.failed for call in shown.calls] == [True, False, True, False, True]


@pytest.mark.parametrize(
    ("layer", "given", "wanted"),
    [
        (nn.Conv2d(3, 8, 3), torch.randn(1, 4, 8, 8), "N x 3 x …"),
        (nn.LayerNorm((4, 6)), torch.randn(2, 6, 4), "… x 4x6"),
        (nn.LSTM(5, 7), torch.randn(3, 2, 6), "… x 5"),
        (nn.Embedding(10, 4), torch.tensor([3, 10]), "whole numbers below 10"),
        (nn.BatchNorm1d(6).eval(), torch.randn(2, 5), "N x 6 x …"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_layer_wanted(layer, given, wanted):
    shown = passes.observe(nn.Sequential(layer), (given,), {}, mode="real")
    assert shown.failure is not None
    assert f"wants {wanted}, got " in shown.failure.error


def test_an_error_that_the_model_catches_is_not_the_failure():
    class Tries(nn.Module):
        def __init__(self):
            super().__init__()
            self.bad = nn.Linear(9, 9)
            self.worse = nn.Linear(8, 8)

        def forward(self, x):
            try:
                self.bad(x)
            except RuntimeError:
                x = x + 1
            return self.worse(x)

    shown = passes.observe(Tries(), (torch.randn(1, 4),), {}, mode="real")
    assert shown.failure is not None
    assert shown.failure.module == "worse"


def test_inputs_that_forward_cannot_take():
    with pytest.raises(InputsError, match=r"Linear.forward.* cannot be called with \(2x4, 2x4\)"):
        passes.observe(nn.Linear(4, 4), (torch.randn(2, 4), torch.randn(2, 4)), {})


def test_unknown_mode_and_dtype():
    with pytest.raises(UsageError, match="no mode is called 'quick'"):
        passes.observe(nn.Linear(4, 4), (torch.randn(2, 4),), {}, mode="quick")
    with pytest.raises(InputsError, match="no dtype is called 'float33'"):
        passes.observe(nn.Linear(4, 4), (torch.randn(2, 4),), {}, dtype="float33")


def test_a_model_that_differentiates_inside_forward():
    class Force(nn.Module):
        def __init__(self):
            super().__init__()
            self.energy = nn.Linear(3, 1)

        def forward(self, x):
            x = x.detach().requires_grad_()
            return torch.autograd.grad(self.energy(x).sum(), x)[0]

    shown = passes.observe(Force(), (torch.randn(2, 3),), {}, mode="real")
    assert shown.failure is None
    assert "differentiates inside forward" in shown.assumptions[0]
