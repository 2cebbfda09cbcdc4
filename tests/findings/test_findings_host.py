"""Rules about Python waiting for tensors: notes on a CPU, priced suggestions on an accelerator."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from finding_models import finding_of, in_document, paths, values
from machine_documents import measured, timed
from msgspec.structs import replace
from torch import nn

import assay
from assay.document.provenance import Unknown
from assay.document.timing import Timing

X = torch.ones(2, 8)


class Gate(nn.Module):
    def forward(self, x):
        for row in x:
            if row.sum() > 3:
                x = x + row.max().item()
        return x


class Numpy(nn.Module):
    def forward(self, x):
        return x + torch.from_numpy(np.sort(x.numpy()))


class Clean(nn.Module):
    def forward(self, x):
        return torch.where(x.sum(1, keepdim=True) > 3, x + x.max(), x)


class Moves(nn.Module):
    def forward(self, x):
        (x * 2).to("meta")
        return x


def model(part):
    return nn.Sequential(nn.Linear(8, 8), part)


def test_reads_are_a_note_on_a_cpu_with_their_lines():
    document = assay.observe(model(Gate()), X)
    finding = in_document("C501", document)
    assert finding.severity == "note"
    assert finding.gain is None
    assert values(finding)["reads"] == values(finding)["reads_of_bool"] + values(finding).get("reads_of_item", 0)
    assert values(finding)["reads_of_bool"] == 2
    assert "test_findings_host.py:" in finding.title
    assert "(2×)" in finding.title
    assert paths(document, finding) == ["1"]


def test_reads_on_an_accelerator_cost_at_most_the_time_it_is_idle():
    document = assay.observe(model(Gate()), X)
    on_gpu = replace(document, machine=replace(document.machine, device="cuda:0"))
    assert isinstance(in_document("C501", on_gpu).gain.amount.how, Unknown)
    clocked = replace(timed(on_gpu, {"aten.linear": 0.75}, between_s=0.25), timing=Timing(gap=measured(0.2)))
    finding = in_document("C501", clocked)
    assert finding.severity == "advice"
    assert finding.gain.amount.value == 0.2
    assert finding.gain.share.value == pytest.approx(0.2, rel=1e-3)
    assert in_document("C501", replace(clocked, timing=Timing(gap=measured(0.001)))).severity == "note"


def test_numpy_is_reported_apart_from_reads():
    finding = finding_of("C502", model(Numpy()), X)
    assert values(finding) == {"conversions": 1}
    assert finding.severity == "note"
    assert finding_of("C501", model(Numpy()), X) is None
    assert finding_of("C502", model(Gate()), X) is None


@pytest.mark.parametrize("code", ["C501", "C502", "C503"])
def test_a_model_that_never_reads_is_silent(code):
    assert finding_of(code, model(Clean()), X) is None


def test_copies_between_devices_are_counted_with_their_bytes():
    document = assay.observe(model(Moves()), X)
    finding = in_document("C503", document)
    assert values(finding) == {"copies": 1, "copied_bytes": X.numel() * 4}
    clocked = timed(document, {"aten.linear": 0.9, "aten.to": 0.1})
    assert in_document("C503", clocked).gain.share.value == pytest.approx(0.1, rel=1e-3)


def test_moving_an_input_is_not_a_copy_of_an_activation():
    class MovesInput(nn.Module):
        def forward(self, x):
            x.to("meta")
            return x * 2

    assert finding_of("C503", MovesInput(), X) is None
