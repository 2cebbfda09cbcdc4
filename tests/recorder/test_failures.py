"""If forward fails, the results so far are kept, and the error names the module, the expected and actual input."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from assay.errors import InputsError, UsageError
from assay.recorder import passes


def test_an_incomplete_result_names_the_failing_module_and_op():
    model = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.ReLU(), nn.Linear(7, 2)))
    result = passes.observe(model, (torch.randn(3, 4),), {}, mode="real")
    assert result.failure is not None
    assert (result.failure.module, result.failure.module_class) == ("1.1", "Linear")
    assert result.failure.op == "aten.linear.default"
    assert "expected … x 7, got 3x8 float32" in result.failure.error
    assert [result.kinds[op.kind].target for op in result.ops] == ["aten.linear.default", "aten.relu.default"]
    assert [call.failed for call in result.calls] == [True, False, True, False, True]


@pytest.mark.parametrize(
    ("layer", "x", "expected"),
    [
        (nn.Conv2d(3, 8, 3), torch.randn(1, 4, 8, 8), "N x 3 x …"),
        (nn.LayerNorm((4, 6)), torch.randn(2, 6, 4), "… x 4x6"),
        (nn.LSTM(5, 7), torch.randn(3, 2, 6), "… x 5"),
        (nn.Embedding(10, 4), torch.tensor([3, 10]), "integers below 10"),
        (nn.BatchNorm1d(6).eval(), torch.randn(2, 5), "N x 6 x …"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_error_names_the_input_that_a_layer_expects(layer, x, expected):
    result = passes.observe(nn.Sequential(layer), (x,), {}, mode="real")
    assert result.failure is not None
    assert f"expected {expected}, got " in result.failure.error


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

    result = passes.observe(Tries(), (torch.randn(1, 4),), {}, mode="real")
    assert result.failure is not None
    assert result.failure.module == "worse"


def test_inputs_that_forward_does_not_accept():
    with pytest.raises(InputsError, match=r"Linear.forward.* cannot be called with \(2x4, 2x4\)"):
        passes.observe(nn.Linear(4, 4), (torch.randn(2, 4), torch.randn(2, 4)), {})
    with pytest.raises(InputsError, match=r"'input2'; give the inputs by name, such as input1=2x4, input2=2x4"):
        passes.observe(nn.Bilinear(4, 4, 4), (torch.randn(2, 4),), {})


def test_an_unknown_mode_or_dtype_is_an_error():
    with pytest.raises(UsageError, match="unknown mode 'quick'"):
        passes.observe(nn.Linear(4, 4), (torch.randn(2, 4),), {}, mode="quick")
    with pytest.raises(InputsError, match="unknown dtype 'float33'"):
        passes.observe(nn.Linear(4, 4), (torch.randn(2, 4),), {}, dtype="float33")


def test_a_model_that_differentiates_inside_forward():
    class Force(nn.Module):
        def __init__(self):
            super().__init__()
            self.energy = nn.Linear(3, 1)

        def forward(self, x):
            x = x.detach().requires_grad_()
            return torch.autograd.grad(self.energy(x).sum(), x)[0]

    result = passes.observe(Force(), (torch.randn(2, 3),), {}, mode="real")
    assert result.failure is None
    assert "differentiates inside forward" in result.assumptions[0]
