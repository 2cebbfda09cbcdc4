"""Measured memory of `assay.profile`: known tensors as the oracle, training steps, sweeps, and the report."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import assay
from assay.analysis.memory import memory_of
from assay.cli.main import run
from assay.document.provenance import Measured, Unknown
from assay.timing import allocations
from assay.views.text.profile import profile_report
from assay.views.text.report import as_text

MIB = 1 << 20
STATUS = Path("/proc/self/status")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


class Known(nn.Module):
    """Writes to 48 MiB, then to 16 MiB more, and returns one number."""

    def forward(self, x):
        large = torch.ones(12 * MIB)
        return (large.sum() + torch.ones(4 * MIB).sum()) * x.sum()


class Pieces(nn.Module):
    """Holds 64 MiB in tensors of 64 KiB, which the C library takes from its heap."""

    def forward(self, x):
        pieces = [torch.ones(16 << 10) for _ in range(1024)]
        return torch.stack([piece[0] for piece in pieces]).sum() * x.sum()


def profiled(model, *inputs, **options):
    return assay.profile(model, inputs, passes=1, warmup=0, **options)


@linux
@pytest.mark.parametrize("model", [Known(), Pieces()])
def test_a_pass_is_measured_as_large_as_the_tensors_it_holds(model):
    for _ in range(2):  # memory that the C library kept from a warm model must not hide that of the next pass
        model(torch.ones(2))
    memory = profiled(model, torch.ones(2)).profile.memory
    assert memory.predicted_activations.value == pytest.approx(64 * MIB, rel=0.01)
    assert memory.allocator_growth.value == pytest.approx(64 * MIB, rel=0.01)
    assert 62 * MIB < memory.process_growth.value < 80 * MIB
    assert memory.process_peak.value > memory.process_growth.value
    assert memory.allocator_op.startswith("aten::")


def test_a_training_step_is_measured_with_gradients_and_optimizer_state():
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))
    step = profiled(model, torch.randn(2048, 512), backward=True).profile.step
    weights = sum(parameter.nbytes for parameter in model.parameters())
    measured = step.memory.allocator_growth
    assert isinstance(measured.how, Measured)
    assert measured.value >= 3 * weights  # gradients and two moments of AdamW
    assert step.memory.predicted_activations.value == pytest.approx(measured.value, rel=0.02)
    stateless = profiled(model, torch.randn(2048, 512), backward=True, optimizer="sgd").profile.step.memory
    assert measured.value - stateless.allocator_growth.value == pytest.approx(2 * weights, rel=0.01)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_an_optimizer_that_torch_does_not_have_leaves_the_step_unmeasured():
    memory = profiled(nn.Linear(4, 4), torch.randn(2, 4), backward=True, optimizer="lion").profile.step.memory
    assert isinstance(memory.allocator_growth.how, Unknown)
    assert "lion" in memory.allocator_growth.how.why
    assert memory.predicted_activations.value > 0


def test_a_running_profiler_makes_the_allocations_unknown():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        figure, op = allocations.growth(lambda: torch.ones(1000))
    assert (figure.value, op) == (None, "")
    assert "another profiler" in figure.how.why


def test_the_largest_batch_of_a_training_step_includes_gradients_and_state():
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))
    limit = 4 * MIB
    document = profiled(model, torch.randn(2, 64), backward=True, memory_limit=limit, sweeps=[("batch", [2])])
    (sweep,) = document.profile.sweeps

    def peak(batch, backward):
        memory = memory_of(assay.observe(model, torch.randn(batch, 64), mode="real", backward=backward))
        return (memory.training if backward else memory.inference).total.value

    assert peak(sweep.largest, False) <= limit < peak(sweep.largest + 1, False)
    assert peak(sweep.largest_step, True) <= limit < peak(sweep.largest_step + 1, True)
    assert sweep.largest_step < sweep.largest
    (point,) = sweep.points
    assert point.step_memory.value == peak(2, True)
    assert point.measured_memory.value == pytest.approx(point.memory.value, rel=0.05)
    assert f"{sweep.largest_step:,} of a training step" in as_text(profile_report(document, []))


def test_without_backward_no_training_step_is_searched():
    document = profiled(nn.Linear(64, 8), torch.randn(2, 64), memory_limit=MIB, sweeps=[("batch", [2])])
    (sweep,) = document.profile.sweeps
    assert sweep.largest
    assert sweep.largest_step is None
    assert sweep.points[0].step_memory.value is None


def test_the_training_step_of_a_recurrent_network_can_be_searched():
    document = profiled(
        nn.LSTM(4, 8, batch_first=True),
        torch.randn(2, 3, 4),
        backward=True,
        memory_limit=MIB,
        sweeps=[("batch", [2])],
    )
    (sweep,) = document.profile.sweeps
    assert 0 < sweep.largest_step < sweep.largest


@linux
def test_the_largest_batch_is_searched_without_memory_for_the_inputs():
    def peak_bytes():
        (line,) = [line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) * 1024

    row = torch.randn(1, 1 << 18)  # 16,384 rows would take 16 GiB
    model = nn.Sequential(nn.Unflatten(1, (-1, 4)), nn.Linear(4, 1))
    before = peak_bytes()
    document = profiled(model, row, memory_limit=1 << 50, sweeps=[("batch", [1])])
    assert document.profile.sweeps[0].largest == 1 << 14
    assert peak_bytes() - before < 1 << 30


def test_the_report_shows_both_peaks_the_timeline_and_live_tensors(tmp_path, capsys):
    document = profiled(nn.GRU(8, 16), torch.randn(6, 2, 8), backward=True)
    text = as_text(profile_report(document, []))
    assert "Peak memory beyond parameters, buffers and inputs: predicted, allocated by torch, resident" in text
    assert "Inference: peak" in text
    assert "Training step: peak" in text
    assert text.count("Live tensors at the peak, largest first") == 2
    path = str(tmp_path / "gru.assay.json")
    assay.save(document, path)
    run(["memory", path, "--format", "json"])
    rows = json.loads(capsys.readouterr().out)["measured"]
    assert [row["name"] for row in rows] == ["forward pass", "training step"]
    assert rows[1]["ratio"] == pytest.approx(1, abs=0.15)
    for arguments in (["memory", path], ["analyze", path, "--full", "--dir", str(tmp_path)]):
        run(arguments)
        assert "allocated by torch" in capsys.readouterr().out
