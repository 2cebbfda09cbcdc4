"""BatchNorm and Dropout in training mode: live models in any mode, TorchScript and exported programs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import assay
from assay.findings.engine import check

IMAGE = torch.ones(2, 3, 8, 8)


def network(mode):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5))
    model.train(mode == "training")
    if mode == "mixed":
        model[1].train()
    return model


def found(model, **options):
    document = assay.observe(model, None if isinstance(model, str) else (IMAGE,), **options)
    return {finding.code: finding.severity for finding in check(document, select=["S201", "S202", "S205", "S206"])}


EXPECTED = {"evaluation": {}, "training": {"S206": "note"}, "mixed": {"S205": "warning"}}


@pytest.mark.parametrize("options", [{}, {"as_is": True}, {"train": True}], ids=["default", "as is", "train"])
@pytest.mark.parametrize("mode", EXPECTED)
def test_live_models(mode, options):
    assert found(network(mode), **options) == EXPECTED[mode]


@pytest.mark.parametrize("mode", EXPECTED)
def test_scripted_models(mode):
    assert found(torch.jit.script(network(mode))) == EXPECTED[mode]


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_a_trace_keeps_the_mode_it_was_made_in():
    traced = {mode: torch.jit.trace(network(mode), IMAGE, check_trace=False) for mode in EXPECTED}
    assert found(traced["evaluation"]) == {}
    assert found(traced["mixed"]) == {"S205": "warning"}
    # eval() has no effect on it: values are dropped in a pass in evaluation mode.
    assert found(traced["training"]) == {"S201": "warning", "S202": "warning", "S206": "note"}
    finding = next(iter(check(assay.observe(traced["training"], (IMAGE,)), select=["S201"])))
    assert "before tracing" in finding.advice


EXPORTED = {"evaluation": {}, "training": {"S201": "note", "S202": "note"}, "mixed": {"S202": "warning"}}
"""A program exported for training is fine; one with a layer left in training mode is not."""


@pytest.mark.parametrize("trust", [False, True])
@pytest.mark.parametrize("mode", EXPORTED)
def test_exported_programs(mode, trust, tmp_path):
    file = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(network(mode), (IMAGE,)), file)
    assert found(str(file), trust=trust) == EXPORTED[mode]


def test_norms_of_an_exported_program_can_be_folded(tmp_path):
    file = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(network("evaluation"), (IMAGE,)), file)
    assert [finding.code for finding in check(assay.observe(file, trust=True), select=["S203"])] == ["S203"]


class FrozenBatchNorm2d(nn.BatchNorm2d):
    """Like torchvision's: never uses batch statistics."""


class DropPath(nn.Module):
    def __init__(self, drop_prob):
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x):
        return x


@pytest.mark.parametrize(
    "layer",
    [nn.InstanceNorm2d(3), nn.BatchNorm2d(3, track_running_stats=False), FrozenBatchNorm2d(3), DropPath(0.0)],
    ids=["instance norm", "untracked", "frozen", "no probability"],
)
def test_layers_whose_output_does_not_depend_on_the_mode(layer):
    assert "S206" not in found(nn.Sequential(layer, nn.ReLU()).train())


@pytest.mark.parametrize("layer", [nn.InstanceNorm2d(3, track_running_stats=True), DropPath(0.1)])
def test_layers_whose_output_depends_on_the_mode(layer):
    assert found(nn.Sequential(layer, nn.ReLU()).train()) == {"S206": "note"}


def test_weight_standardisation_is_not_batch_statistics():
    class Standardised(nn.Conv2d):
        def forward(self, x):
            flat = self.weight.reshape(1, self.out_channels, -1)
            weight = nn.functional.batch_norm(flat, None, None, training=True).reshape_as(self.weight)
            return nn.functional.conv2d(x, weight, self.bias)

    assert found(Standardised(3, 4, 3).eval()) == {}
