"""Channels-first convolutions: reported with the time above the limits, silent in channels-last layout."""

from __future__ import annotations

import pytest
import torch
from finding_models import in_document, values
from machine_documents import MACHINE, finding_on, timed
from torch import nn

import assay

IMAGE = torch.ones(1, 3, 64, 64)


def network():
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.MaxPool2d(2), nn.Conv2d(64, 64, 3, padding=1)
    ).eval()


def test_without_times_it_is_a_note():
    finding = in_document("C210", assay.observe(network(), IMAGE))
    assert finding.severity == "note"
    assert values(finding)["convolutions"] == 2
    assert finding.gain.share.value is None


def test_the_gain_is_the_time_above_the_limits():
    document = assay.observe(network(), IMAGE)
    pool = next(i for i, kind in enumerate(document.kinds) if "max_pool" in kind.target)
    least = document.cost.kinds[pool].bytes / MACHINE.bandwidth
    finding = finding_on("C210", timed(document, {"aten.conv2d": 1e-9, "aten.max_pool2d": 100 * least}))
    assert finding.severity == "advice"
    assert "torch.max_pool2d takes 100 times as long" in finding.title
    # The convolutions are faster than their limits, which must not make up for the slow pool.
    assert finding.gain.amount.value == pytest.approx(99 * least)


def test_a_pass_at_its_limits_has_nothing_to_gain():
    finding = finding_on("C210", timed(assay.observe(network(), IMAGE), {"aten.conv2d": 1e-12}))
    assert finding is None or finding.severity == "note"


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (network().to(memory_format=torch.channels_last), IMAGE.to(memory_format=torch.channels_last)),
        (nn.Sequential(nn.Conv2d(3, 4, 3)), IMAGE),
        (nn.Sequential(nn.Conv1d(64, 64, 9), nn.Conv1d(64, 64, 9)), torch.ones(4, 64, 2048)),
        (nn.Sequential(nn.Linear(1024, 1024)), torch.ones(256, 1024)),
    ],
)
def test_silent_in_channels_last_and_without_large_images(model, inputs):
    assert in_document("C210", assay.observe(model, inputs)) is None


def test_a_transformer_with_a_patch_convolution_is_not_convolutional():
    class Patches(nn.Module):
        def __init__(self):
            super().__init__()
            self.cut = nn.Conv2d(3, 256, 8, 8)
            self.body = nn.Sequential(*[nn.Linear(256, 2048), nn.Linear(2048, 256)] * 4)

        def forward(self, x):
            return self.body(self.cut(x).flatten(2).transpose(1, 2))

    assert in_document("C210", assay.observe(Patches(), torch.ones(4, 3, 128, 128))) is None
