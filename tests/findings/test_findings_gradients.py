"""Rules about gradients: each fires on a model with the problem and not on a near miss."""

from __future__ import annotations

import pytest
import torch
from finding_models import in_document, paths, values
from test_findings_activations import X, chain, kept, recorded, scaled
from torch import nn

from assay.findings.engine import check_all


def test_gradients_are_those_of_autograd():
    model = chain(torch.tanh, kept)
    rows = recorded(model, backward=True).activations.gradients
    torch.manual_seed(0)
    output = model(X)
    output.backward(torch.randn_like(output))
    for row, parameter in zip(rows, model.parameters(), strict=True):
        assert row.norm == pytest.approx(parameter.grad.norm().item(), rel=1e-5)
        assert row.max_abs == pytest.approx(parameter.grad.abs().max().item(), rel=1e-5)
        assert row.weight_norm == pytest.approx(parameter.norm().item(), rel=1e-5)
        assert row.received


def test_a_root_at_zero_has_no_finite_gradient():
    document = recorded(chain(kept, lambda x: torch.sqrt(0 * x), kept), backward=True)
    finding = in_document("A201", document)
    assert finding.severity == "error"
    assert paths(document, finding) == ["0.inner", "1.inner"]
    assert "from 1.inner.bias backwards" in finding.title
    assert in_document("A101", document) is None
    assert in_document("A201", recorded(chain(kept, torch.sigmoid, kept), backward=True)) is None


def test_nan_in_the_forward_pass_is_reported_once():
    document = recorded(chain(lambda x: torch.log(x - 100), kept), backward=True)
    assert in_document("A101", document) is not None
    assert in_document("A201", document) is None


def test_gradients_that_lose_their_scale():
    finding = in_document("A202", recorded(scaled(0.3, 10), backward=True))
    # The gradient of a weight is its input times what comes back: both shrink, so that their product stays the same.
    assert finding is None
    vanishing = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Sigmoid()) for _ in range(12)))
    torch.manual_seed(0)
    finding = in_document("A202", recorded(vanishing, backward=True))
    assert finding is not None
    assert values(finding)["first_rms"] * 1e3 < values(finding)["last_rms"]
    assert finding.tensors == tuple(f"{index}.0.weight" for index in range(12))


class Cut(nn.Module):
    """A branch that is cut off from the output, and one that is multiplied by zero."""

    def __init__(self, cut: bool, zero: bool):
        super().__init__()
        self.main, self.branch = nn.Linear(8, 8), nn.Linear(8, 8)
        self.cut, self.scale = cut, nn.Parameter(torch.tensor(0.0 if zero else 1.0))

    def forward(self, x):
        branch = self.branch(x)
        return self.main(x) + self.scale * (branch.detach() if self.cut else branch)


def test_parameters_without_a_gradient():
    document = recorded(Cut(cut=True, zero=False), backward=True)
    finding = in_document("A203", document)
    assert (finding.severity, paths(document, finding)) == ("warning", ["branch"])
    assert finding.tensors == ("branch.weight", "branch.bias")
    assert in_document("A203", recorded(Cut(cut=False, zero=False), backward=True)) is None


def test_gradients_of_exactly_zero_are_a_note():
    finding = in_document("A203", recorded(Cut(cut=False, zero=True), backward=True))
    assert (finding.severity, finding.tensors) == ("note", ("branch.weight", "branch.bias"))


def test_a_sum_that_is_constant_does_not_hide_gradients():
    model = nn.Sequential(nn.Linear(8, 8), nn.Softmax(-1))
    rows = recorded(model, backward=True).activations.gradients
    assert all(row.norm > 1e-3 for row in rows)
    assert in_document("A203", recorded(model, backward=True)) is None


def test_unused_parameters_are_not_reported_twice():
    class Spare(Cut):
        def forward(self, x):
            return self.main(x)

    document = recorded(Spare(cut=True, zero=True), backward=True)
    assert in_document("A203", document) is None
    assert in_document("S101", document) is not None


def test_a_failed_backward_pass_is_the_reason_for_skipping():
    document = recorded(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)), X[:1], backward=True)
    (skipped,) = check_all(document, select=["A201"]).skipped
    assert "Expected more than 1 value per channel" in skipped.why
