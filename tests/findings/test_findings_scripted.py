"""Findings of a TorchScript file, compared with those of the same model in Python."""

from __future__ import annotations

import io

import pytest
import torch
from torch import nn

import assay
from assay.document.document import Document
from assay.findings.engine import check


def image(channels: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(1, channels, 24, 24, dtype=dtype)


MODELS = {
    "norms": (nn.Sequential(nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8)), image(8)),
    "norm after a transposed one": (nn.Sequential(nn.ConvTranspose2d(8, 8, 3), nn.BatchNorm2d(8)), image(8)),
    "norm after a padded one": (nn.Sequential(nn.Conv2d(8, 8, 3, padding="same"), nn.BatchNorm2d(8)), image(8)),
    "norm with another between": (nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU(), nn.BatchNorm2d(8)), image(8)),
    "depthwise": (nn.Sequential(nn.Conv2d(128, 128, 3, groups=128), nn.Conv2d(128, 128, 1)), image(128)),
    "transposed depthwise": (
        nn.Sequential(nn.ConvTranspose2d(128, 128, 3, groups=128), nn.Conv2d(128, 128, 1)),
        image(128),
    ),
    "large kernel": (nn.Conv2d(8, 8, 9), image(8)),
    "large kernel, padded": (nn.Conv2d(8, 8, 9, padding="same"), image(8)),
    "large kernel, transposed": (nn.ConvTranspose2d(8, 8, 9), image(8)),
    "large kernel, grouped": (nn.Conv2d(8, 8, 9, groups=2), image(8)),
    "unaligned": (nn.Conv2d(20, 36, 3).bfloat16(), image(20, torch.bfloat16)),
    "unaligned, transposed": (nn.ConvTranspose2d(20, 36, 3).bfloat16(), image(20, torch.bfloat16)),
    "signal": (nn.Sequential(nn.Conv1d(8, 8, 3), nn.BatchNorm1d(8)), torch.ones(1, 8, 24)),
    "volume": (nn.Sequential(nn.Conv3d(2, 8, 3), nn.BatchNorm3d(8)), torch.ones(1, 2, 8, 8, 8)),
}

EXPECTED = {
    "norms": {"S203", "S204"},
    "norm after a transposed one": {"S203", "S204"},
    "depthwise": {"C303"},
    "large kernel": {"C304"},
    "large kernel, padded": {"C304"},
    "unaligned": {"C301"},
}
"""Codes that must be among the findings in every form, so that all three cannot be wrong alike."""


def stored(model: torch.jit.ScriptModule) -> torch.jit.ScriptModule:
    file = io.BytesIO()
    torch.jit.save(model, file)
    file.seek(0)
    return torch.jit.load(file)


def summarised(document: Document) -> list[tuple[object, ...]]:
    """Code, title, modules and evidence of every finding that the pass can have."""
    return [
        (finding.code, finding.title, finding.modules, finding.evidence)
        for finding in check(document)
        if finding.code[0] in "SC"
    ]


@pytest.mark.parametrize("form", ["scripted", "traced"])
@pytest.mark.parametrize("name", MODELS)
def test_findings_equal_those_of_the_model_in_python(name, form):
    model, x = MODELS[name]
    model = model.eval()
    live = summarised(assay.observe(model, x))
    script = torch.jit.script(model) if form == "scripted" else torch.jit.trace(model, x, check_trace=False)
    assert summarised(assay.observe(stored(script), x)) == live
    assert {code for code, *_ in live} >= EXPECTED.get(name, set())


def test_unused_parameters_inside_torchscript_are_reported():
    class Spare(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.spare = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            return self.used(x)

    x = torch.ones(2, 8)
    live = summarised(assay.observe(Spare(), x))
    assert "S101" in {code for code, *_ in live}
    assert summarised(assay.observe(torch.jit.script(Spare()), x)) == live
