"""`assay.analyze` reads the values of outputs as `assay.check` does, and also draws the outputs of convolutions."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import assay
from assay.api.options import RunOptions
from assay.api.profile.options import ProfileOptions
from assay.api.profile.profiled import prepare
from assay.api.profile.run import profile_prepared
from assay.findings.brief_model import model_brief
from assay.sources.open import open_source

SHORT = {"passes": 2, "warmup": 0}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3)
        self.norm = nn.BatchNorm2d(6)
        self.head = nn.Linear(6, 4)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


class Writes(Net):
    """Writes to a parameter in forward, which must be undone."""

    def forward(self, x):
        with torch.no_grad():
            self.head.weight.mul_(1.5)
        return super().forward(x)


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def x():
    return torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(0))


def test_the_statistics_are_those_of_check(x):
    torch.manual_seed(0)
    model = Net().eval()
    analyzed = assay.analyze(model, x, depth="inference", **SHORT).document.activations
    checked = assay.check(model, x, measure=False).document.activations
    assert (analyzed.modules, analyzed.ops) == (checked.modules, checked.ops)
    assert analyzed.gradients == []
    output = model(x).detach()
    row = next(row for row in analyzed.modules if row.module == 0)
    assert (row.min, row.max) == (output.min().item(), output.max().item())
    assert row.mean == pytest.approx(output.double().mean().item(), rel=1e-5)


def test_convolutions_are_drawn_by_analyze_and_not_by_check(x):
    model = Net().eval()
    analyzed = assay.analyze(model, x, depth="inference", **SHORT).document.activations
    assert [(row.module, row.shape) for row in analyzed.maps] == [(1, (2, 6, 10, 10))]
    assert "maps" in analyzed.columns
    checked = assay.check(model, x, measure=False).document.activations
    assert checked.maps == []
    assert "maps" not in checked.columns


def test_gradients_are_read_with_a_training_step(x):
    document = assay.analyze(Net(), x, depth="inference", backward=True, **SHORT).document
    names = [document.tensors[row.tensor].names[0] for row in document.activations.gradients]
    assert names == [name for name, _ in Net().named_parameters()]


def test_the_answer_covers_outputs(x):
    found = assay.analyze(Net().eval(), x, depth="inference", **SHORT)
    assert model_brief(found.document, found.checked.findings).clean == "weights or outputs"
    structure = assay.analyze(Net().eval(), x)
    assert model_brief(structure.document, structure.checked.findings).clean == "weights"


@pytest.mark.parametrize("kind", [Net, Writes])
@pytest.mark.parametrize("backward", [False, True])
def test_the_model_stays_bit_for_bit_as_it_was(x, kind, backward):
    model = kind()
    before = copy.deepcopy(model.state_dict())
    assay.analyze(model, x, depth="inference", backward=backward, **SHORT)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert model.training


def test_outputs_are_not_read_without_data(x):
    assert assay.analyze(Net(), x).document.activations is None
    assert assay.analyze(Net(), x, depth="inference", mode="meta").document.activations is None
    assert assay.analyze(Net(), x, depth="inference", memory_limit=1000).document.activations is None
    with torch.device("meta"):
        shapes_only = Net()
    found = assay.analyze(shapes_only, torch.empty(2, 3, 12, 12, device="meta"), depth="inference", **SHORT)
    assert found.document.run.mode == "made-up"
    assert found.document.activations is None


def test_outputs_are_not_read_after_a_pass_that_stopped(x):
    class Stops(Net):
        def forward(self, x):
            self.conv(x)
            raise RuntimeError("no further")

    assert assay.analyze(Stops(), x, depth="inference").document.activations is None


def test_outputs_are_skipped_without_time_for_them(x):
    options = ProfileOptions(warmup=0, passes=1, budget=0.0, outputs=True)
    document = profile_prepared(prepare(open_source(Net()), x, RunOptions()), options)
    assert document.activations is None
    assert any("reading outputs" in note for note in document.profile.notes)
