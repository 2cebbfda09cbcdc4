"""The energy model of a machine, from replays against a sensor whose truth is known."""

from __future__ import annotations

import math
import time

import pytest

pytest.importorskip("torch")

from assay.api import machine
from assay.machine.energy import CounterGroup
from assay.machine.sensors.probe import ENERGY, Probe, SensorError
from assay.timing.peaks.operations import Operation

WATTS, PERIOD = 80.0, 0.002


@pytest.fixture
def quick(monkeypatch):
    """Six operations that wait, and short windows."""
    kinds = [
        Operation(f"wait {n}", lambda n=n: time.sleep(0.001 * n), 1e3 * n, {"fp32": 1e3 / n} if n < 4 else {})
        for n in range(1, 7)
    ]
    monkeypatch.setattr("assay.timing.peaks.operations.operations", lambda where: iter(kinds))
    monkeypatch.setattr(machine, "_WINDOW_S", 0.05)


def test_a_machine_that_draws_the_same_whatever_it_does(quick):
    def read() -> float:
        return math.floor(time.perf_counter() / PERIOD) * PERIOD * WATTS

    told: list[str] = []
    model = machine.calibrated(
        "cpu", CounterGroup((Probe("fake", ENERGY, "package", read),), PERIOD), "it", told.append
    )
    assert model.static_w + 1e6 * model.j_per_byte == pytest.approx(WATTS, rel=0.25)
    assert model.error < 0.25
    assert "calibration on this machine with fake" in model.source
    assert len(told) == 6


def test_a_sensor_that_fails_gives_no_model(quick):
    def read() -> float:
        raise SensorError("gone")

    assert machine.calibrated("cpu", CounterGroup((Probe("fake", ENERGY, "package", read),), PERIOD), "it") is None
