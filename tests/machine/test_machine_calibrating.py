"""The energy model of a machine, from replays against a fake sensor with known power."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch")

import torch

from assay.api import calibrating
from assay.api.calibrating import calibrate_energy_model
from assay.document.machine import Ceiling, Hardware, MachineReport, measured_figure
from assay.machine.energy import CounterGroup
from assay.machine.sensors.probe import ENERGY, Probe, SensorError
from assay.timing.peaks.operations import Operation

WATTS, PERIOD = 80.0, 0.002
REPORT = MachineReport(
    Hardware("cpu", "it"),
    arithmetic=(Ceiling("fp32", measured_figure(1e9, "clock")),),
    bandwidth=(Ceiling("copy", measured_figure(1e9, "clock")),),
)


@pytest.fixture(autouse=True)
def _waiting_ops(monkeypatch, virtual):
    """Eight ops that take time only on a virtual clock, products and sums, and short windows."""

    class Slow(torch.nn.Module):
        def __init__(self, times: int) -> None:
            super().__init__()
            self.times = times

        def forward(self, x):
            virtual.sleep(0.001 * self.times)
            return x @ x if self.times < 4 else x + x

    kinds = [Operation(f"op {n}", Slow(n), (torch.ones(8 * (9 - n), 8 * (9 - n)),)) for n in range(1, 9)]
    monkeypatch.setattr("assay.timing.peaks.operations.operations", lambda where: iter(kinds))
    monkeypatch.setattr(calibrating, "WINDOW_S", 0.05)


def _counters(read) -> CounterGroup:
    return CounterGroup((Probe("fake", ENERGY, "package", read),), PERIOD)


def test_a_machine_with_constant_power(virtual):
    steps: list[str] = []
    model = calibrate_energy_model(
        REPORT,
        _counters(lambda: math.floor(virtual.now / PERIOD) * PERIOD * WATTS),
        on_step=steps.append,
    )
    assert model.static_w == pytest.approx(WATTS, rel=0.05)
    assert model.error < 0.05
    assert model.interval == (pytest.approx(1.0, abs=0.1), pytest.approx(1.0, abs=0.1))
    assert "calibration on this machine with fake" in model.source
    assert steps == [f"energy of op {n}" for n in range(1, 9)]
    assert list(model.errors) == [f"op {n}" for n in range(1, 9)]


def test_a_sensor_that_fails_gives_no_model():
    def read() -> float:
        raise SensorError("gone")

    assert calibrate_energy_model(REPORT, _counters(read)) is None
