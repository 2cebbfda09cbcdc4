"""Energy without a sensor: from processor time on a CPU, with ops that add up to the pass, at made-up times."""

from __future__ import annotations

import pytest
import torch
from msgspec.structs import replace
from test_energy_remainder import kind_time
from torch import nn

import assay
from assay.api.profile import energy as profiled_energy
from assay.api.profile.options import EnergyOptions
from assay.document.machine import Ceiling, EnergyModel, Hardware, MachineReport, measured_figure, unknown_figure
from assay.document.profile import Profile
from assay.views.text.energy import energy_facts, energy_table

CORE_W = 6.0
DOCUMENT = assay.observe(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8), nn.Tanh()), torch.randn(8, 64))


def report(device="cpu", energy=None):
    return MachineReport(
        Hardware(device, "unheard of", cores=2, threads=2),
        arithmetic=(Ceiling("fp32", measured_figure(1e11, "hand")),),
        bandwidth=(Ceiling("copy", measured_figure(1e10, "hand")),),
        energy=energy,
    )


def modelled(monkeypatch, op_s, whole_s, processor_s, *, device="cpu", threads=2, energy=None, document=DOCUMENT):
    """The energy of a pass whose kinds of op took `op_s` each."""
    monkeypatch.setattr(profiled_energy, "counters_of_device", lambda *_: "none")
    monkeypatch.setattr(profiled_energy, "_board", lambda _: None)
    processor = unknown_figure("not timed") if processor_s is None else measured_figure(processor_s, "fake")
    profile = Profile(
        device=device,
        threads=threads,
        whole=measured_figure(whole_s, "fake"),
        processor=processor,
        kinds=[kind_time(1, seconds) for seconds in op_s],
    )
    document = replace(document, profile=profile)
    nothing = (lambda: None,) * 2
    found = profiled_energy.energy(
        None, document, *nothing, report(device.partition(":")[0], energy), EnergyOptions(), print
    )
    return document, found


def total(found):
    return sum(row.each.value * row.count for row in found.kinds if row is not None)


def test_on_a_busy_machine_energy_is_that_of_the_processor_time(monkeypatch):
    """Times of a ResNet-50 while both cores were busy otherwise: its ops took longer than the pass did."""
    document, found = modelled(monkeypatch, [0.3, 0.3, 0.2, 0.1], whole_s=0.85, processor_s=0.45)
    assert found.whole.value == pytest.approx(CORE_W * 0.45)
    assert total(found) == pytest.approx(found.whole.value)
    # Before scaling, ops that took 0.9 s on two threads would have used 10.8 of 2.7 J.
    assert found.closure.value == pytest.approx(4.0)
    assert found.scale.value == pytest.approx(0.25)
    assert found.covered == pytest.approx(1.0)
    assert sum(row.share for row in energy_table(document, found).rows) == pytest.approx(1.0)
    assert found.average_w.value == pytest.approx(CORE_W * 0.45 / 0.85)
    facts = {row.name: row.value for row in energy_facts(found)[0].rows}
    assert facts["sum of op energies ÷ pass energy"] == "4"
    assert facts["op energies multiplied by"] == "0.25"


@pytest.mark.parametrize("whole_s", [0.05, 0.1, 3.8])
def test_waiting_for_other_processes_costs_no_energy(monkeypatch, whole_s):
    _, found = modelled(monkeypatch, [whole_s / 4] * 4, whole_s, processor_s=0.15)
    assert found.whole.value == pytest.approx(CORE_W * 0.15)
    assert [row.each.value for row in found.kinds] == pytest.approx([CORE_W * 0.15 / 4] * 4)


def test_the_interval_holds_the_value_from_processor_time(monkeypatch):
    _, found = modelled(monkeypatch, [0.01] * 4, whole_s=0.5, processor_s=0.05)
    factor = 1 + found.whole.how.error
    assert found.whole.value / factor < CORE_W * 0.05 < found.whole.value * factor


def test_without_a_processor_time_energy_is_unknown(monkeypatch):
    _, found = modelled(monkeypatch, [0.01] * 4, whole_s=0.5, processor_s=None)
    assert found.whole.value is None
    assert found.scale.value is None


@pytest.mark.parametrize(("whole_s", "processor_s", "working_s"), [(0.2, 0.1, 0.1), (0.1, 0.19, 0.1)])
def test_a_calibrated_processor_works_no_longer_than_its_processor_time(monkeypatch, whole_s, processor_s, working_s):
    calibrated = EnergyModel("unheard of", {"fp32": 1e-12}, static_w=50.0, source="a test")
    _, found = modelled(monkeypatch, [0.02] * 4, whole_s, processor_s, energy=calibrated)
    flops = 2 * 8 * (64 * 32 + 32 * 8)
    assert found.whole.value == pytest.approx(50.0 * working_s + 1e-12 * flops)
    assert total(found) == pytest.approx(found.whole.value)


def test_ops_of_unknown_cost_keep_their_share_of_the_pass(monkeypatch):
    calibrated = EnergyModel("unheard of", {"fp32": 1e-12}, static_w=50.0, source="a test")
    costs = [replace(DOCUMENT.cost.kinds[0], matrix_flops=None), *DOCUMENT.cost.kinds[1:]]
    document = replace(DOCUMENT, cost=replace(DOCUMENT.cost, kinds=costs))
    _, found = modelled(monkeypatch, [0.03, 0.01, 0.01, 0.01], 0.08, 0.08, energy=calibrated, document=document)
    assert found.kinds[0] is None
    assert found.covered == pytest.approx(0.5)
    assert total(found) == pytest.approx(found.whole.value / 2)


def test_on_an_accelerator_gaps_are_not_part_of_ops(monkeypatch):
    calibrated = EnergyModel("unheard of", {"fp32": 1e-12}, static_w=150.0, idle_w=100.0, source="a test")
    _, found = modelled(monkeypatch, [1e-3] * 4, 0.01, 0.01, device="cuda:0", threads=None, energy=calibrated)
    flops = 2 * 8 * (64 * 32 + 32 * 8)
    (gaps,) = found.remainder
    assert (gaps.name, gaps.energy.value) == ("gaps between ops", pytest.approx(100.0 * 6e-3))
    assert total(found) == pytest.approx(150.0 * 4e-3 + 1e-12 * flops)
    assert total(found) + gaps.energy.value == pytest.approx(found.whole.value)
    assert found.scale.value == pytest.approx(1.0)
