"""The energy model of a machine, from replays against a fake sensor with known power."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch")

from assay.api import machine
from assay.machine.energy import CounterGroup
from assay.machine.sensors.probe import ENERGY, Probe, SensorError
from assay.timing.peaks.operations import Operation

WATTS, PERIOD = 80.0, 0.002


@pytest.fixture(autouse=True)
def _waiting_ops(monkeypatch, virtual):
    """Six ops that only wait, and short windows."""
    kinds = [
        Operation(f"wait {n}", lambda n=n: virtual.sleep(0.001 * n), 1e3 * n, {"fp32": 1e3 / n} if n < 4 else {})
        for n in range(1, 7)
    ]
    monkeypatch.setattr("assay.timing.peaks.operations.operations", lambda where: iter(kinds))
    monkeypatch.setattr(machine, "_WINDOW_S", 0.05)


def test_a_machine_with_constant_power(virtual):
    def read() -> float:
        return math.floor(virtual.now / PERIOD) * PERIOD * WATTS

    steps: list[str] = []
    sensors = CounterGroup((Probe("fake", ENERGY, "package", read),), PERIOD)
    model = machine.calibrate_energy_model("cpu", sensors, "it", steps.append)
    assert model.static_w + 1e6 * model.j_per_byte == pytest.approx(WATTS, rel=0.05)
    assert model.error < 0.05
    assert "calibration on this machine with fake" in model.source
    assert len(steps) == 6


def test_a_sensor_that_fails_gives_no_model():
    def read() -> float:
        raise SensorError("gone")

    assert (
        machine.calibrate_energy_model("cpu", CounterGroup((Probe("fake", ENERGY, "package", read),), PERIOD), "it")
        is None
    )
