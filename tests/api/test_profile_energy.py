"""The energy of a profile: modelled without a sensor, measured with one, and modelled if the sensor fails."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import assay
from assay.api.options import RunOptions, by_step
from assay.api.profile import energy as profiled_energy
from assay.api.profile import op_replay
from assay.api.profile import run as running
from assay.api.profile.options import EnergyOptions, ProfileOptions
from assay.api.profile.profiled import prepare
from assay.api.profile.run import profile_prepared
from assay.document.machine import (
    Ceiling,
    EnergyModel,
    Hardware,
    MachineReport,
    MonitorRecording,
    Replay,
    Series,
    Thermal,
    measured_figure,
    unknown_figure,
)
from assay.document.provenance import Measured, Modelled, Unknown
from assay.errors import UsageError
from assay.machine.energy import CounterGroup, replay_s
from assay.machine.sensors.probe import ENERGY, Probe, SensorError
from assay.sources.open import open_source
from assay.views.text.energy import energy_facts, energy_table, energy_title
from assay.views.text.profile import profile_report
from assay.views.text.report import as_text

WATTS, RUN_S, PERIOD, STATIC_W, PER_FLOP, PER_BYTE = 80.0, 0.025, 0.005, 10.0, 3e-9, 2e-9
MODEL = EnergyModel("made up", {"fp32": PER_FLOP}, PER_BYTE, STATIC_W, error=0.25, source="a test")
ROWS, WIDE, NARROW = 8, 64, 32


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDE, NARROW, bias=False)

    def forward(self, x):
        return torch.relu(self.layer(x))


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path):
    """A made-up machine report, so that this machine is not measured."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    report = MachineReport(
        Hardware("cpu", "a test", cores=2, threads=1, key="test"),
        arithmetic=(Ceiling("fp32", measured_figure(1e11, "hand")),),
        bandwidth=(Ceiling("copy", measured_figure(1e10, "hand")),),
        energy=MODEL,
    )
    monkeypatch.setattr(running, "measure_machine", lambda device, quick, on_step: report)
    return report


class Meter:
    """A replay that runs everything once and always finds the same power and time, until the sensor is lost."""

    def __init__(self):
        self.results, self.lost, self.thermal, self.now, self.plans = [], False, Thermal(), 0.0, []

    def perf_counter(self):
        return self.now

    def __call__(self, run, sensors, *, synchronize, window_s, repeats):
        self.results.append(run())
        self.plans.append((window_s, repeats))
        self.now += replay_s(window_s, repeats, sensors.period_s)
        if self.lost:
            return Replay(unknown_figure("it is gone"), period_s=sensors.period_s)
        joules = WATTS * RUN_S
        return Replay(
            energy_j=measured_figure(joules, sensors.name, repeats=repeats),
            above_idle_j=measured_figure(joules - sensors.idle_w.value * RUN_S, sensors.name),
            time_s=measured_figure(RUN_S, "a test"),
            power_w=measured_figure(WATTS, sensors.name),
            thermal=self.thermal,
        )


def sensed(monkeypatch, read=lambda: 0.0):
    """The processor has this one counter."""
    probe = Probe("fake:energy", ENERGY, "package", read, adds=True)
    sensors = CounterGroup((probe,), PERIOD, measured_figure(20.0, "hand"))
    monkeypatch.setattr(profiled_energy, "counters_of_device", lambda *_: sensors)


@pytest.fixture
def meter(monkeypatch):
    """A counter whose replays need no clock, and every op is replayed."""
    meter = Meter()
    sensed(monkeypatch)
    monkeypatch.setattr(profiled_energy, "replay", meter)
    monkeypatch.setattr(op_replay, "replay", meter)
    monkeypatch.setattr(op_replay, "time", meter)
    monkeypatch.setattr(op_replay, "SMALLEST", 0.0)
    return meter


def profiled(model=None, x=None, on_step=None, passes=3, warmup=1, **energy):
    options = EnergyOptions(**{"window_s": 0.1, "repeats": 2, **energy})
    ready = prepare(open_source(model or Net()), torch.randn(ROWS, WIDE) if x is None else x, RunOptions("real"))
    return profile_prepared(
        ready, ProfileOptions(passes=passes, warmup=warmup, budget=None, energy=options), by_step(on_step)
    )


def test_without_a_sensor_energy_is_work_times_coefficients(monkeypatch):
    monkeypatch.setattr(profiled_energy, "counters_of_device", lambda *_: "nothing here can tell")
    document = profiled(grid="400g", price_kwh=0.5, pue=1.5)
    found = document.profile.energy
    seconds = document.profile.whole.value
    # The rest of the time, the CPU worked for other processes.
    working = min(seconds, document.profile.processor.value)
    flops = 2 * ROWS * WIDE * NARROW
    moved = 4 * (ROWS * WIDE + WIDE * NARROW + ROWS * NARROW) + 4 * 2 * ROWS * NARROW
    joules = PER_FLOP * flops + PER_BYTE * moved + STATIC_W * working
    assert isinstance(found.whole.how, Modelled)
    assert found.whole.value == pytest.approx(joules)
    assert found.whole.how.error == 0.25
    assert found.average_w.value == pytest.approx(joules / seconds)
    assert found.carbon_g.value == pytest.approx(joules / 3.6e6 * 1.5 * 400)
    assert found.price.value == pytest.approx(joules / 3.6e6 * 1.5 * 0.5 * 1e6)
    assert (found.sensor, found.why) == ("", "nothing here can tell")
    for figure in (found.above_idle, found.idle_w, found.peak_w):
        assert figure.value is None
        assert isinstance(figure.how, Unknown)
    text = as_text(profile_report(document, []))
    assert "Energy (modelled: no usable sensor on this machine)" in text
    assert text.count("nothing here can tell") == 1
    assert "0 J" not in text


def test_carbon_and_price_are_unknown_by_default(monkeypatch):
    monkeypatch.setattr(profiled_energy, "counters_of_device", lambda *_: "none")
    found = profiled().profile.energy
    assert found.carbon_g.value is None
    assert found.price.value is None


def test_with_a_sensor_energy_is_measured(meter):
    document = profiled(grid="400g")
    found = document.profile.energy
    assert isinstance(found.whole.how, Measured)
    assert found.sensor == "fake:energy"
    assert found.whole.value == pytest.approx(WATTS * RUN_S)
    assert found.average_w.value == pytest.approx(WATTS)
    assert found.above_idle.value == pytest.approx((WATTS - 20.0) * RUN_S)
    assert found.carbon_g.value == pytest.approx(WATTS * RUN_S / 3.6e6 * 400)
    assert isinstance(found.carbon_g.how, Modelled)
    assert isinstance(found.modelled.how, Modelled)
    rows = {document.kinds[index].name: row for index, row in enumerate(found.kinds) if row is not None}
    assert "torch.nn.functional.linear" in rows
    assert all(isinstance(row.each.how, Measured) and row.each.value > 0 for row in rows.values())
    assert sum(row.share for row in energy_table(document, found).rows) == pytest.approx(1.0)
    # Every replay finds the energy of the whole pass, so each execution counts as one pass.
    assert found.closure.value == pytest.approx(sum(row.count for row in rows.values()))
    assert found.covered == pytest.approx(1.0)
    assert energy_title(found) == "measured by fake:energy"


@pytest.mark.parametrize("kept", [1, 12])
def test_ops_are_replayed_on_the_inputs_they_had(monkeypatch, meter, kept):
    monkeypatch.setattr(op_replay, "KEPT", kept)
    model, x = Net(), torch.randn(ROWS, WIDE)
    profiled(model, x, passes=2, warmup=0)
    with torch.no_grad():
        hidden = x @ model.layer.weight.T
    replayed = [result for result in meter.results if isinstance(result, torch.Tensor)]
    assert any(torch.allclose(each, hidden, atol=1e-5) for each in replayed)
    assert any(torch.allclose(each, hidden.relu(), atol=1e-5) for each in replayed)


def test_a_failing_sensor_leaves_the_modelled_energy_and_a_reason(monkeypatch):
    left = iter(range(3))

    def read():
        count = next(left, None)
        if count is None:
            raise SensorError("it is gone")
        return float(count)

    sensed(monkeypatch, read)
    document = profiled()
    found = document.profile.energy
    assert isinstance(found.whole.how, Modelled)
    assert found.whole.value > 0
    assert "gone" in found.why
    assert found.sensor == ""
    assert document.timing is not None
    text = as_text(profile_report(document, []))
    assert text.count("it is gone") == 1


def test_a_sensor_that_goes_away_after_the_pass_keeps_the_pass(meter):
    def lose(step):
        meter.lost = meter.lost or step.startswith("energy of torch.")

    document = profiled(on_step=lose)
    found = document.profile.energy
    assert meter.lost
    assert found.whole.value == pytest.approx(WATTS * RUN_S)
    assert isinstance(found.whole.how, Measured)
    rows = [row for row in found.kinds if row is not None]
    assert rows
    assert {row.each.value for row in rows} == {None}
    assert found.closure.value is None
    assert not energy_table(document, found).rows


def test_the_power_of_a_gpu_is_not_reported_for_the_cpu(monkeypatch):
    monkeypatch.setattr(profiled_energy, "counters_of_device", lambda *_: "none")
    series = [Series("gpu.0.power", "W", "board", [300.0, 310.0])]
    monkeypatch.setattr(running._Profiling, "_recorded", lambda *_: MonitorRecording([0.0, 1.0], series))
    document = assay.profile(Net(), torch.randn(1, WIDE), passes=2, system=True, energy=True)
    assert document.profile.system.series == series
    assert document.profile.energy.peak_w.value is None


@pytest.mark.parametrize("options", [{"grid": "nowhere"}, {"pue": 0.5}, {"pue": math.nan}, {"price": -1.0}], ids=str)
def test_energy_options_out_of_range_are_refused_before_anything_runs(options):
    ran = []
    model = Net()
    model.register_forward_hook(lambda *_: ran.append(1))
    with pytest.raises(UsageError):
        assay.profile(model, torch.randn(1, WIDE), energy=True, **options)
    assert not ran


def test_throttling_is_noted_and_shown(meter):
    degrees = [measured_figure(value, "nvml:0") for value in (41.0, 88.0, 91.0)]
    share = measured_figure(0.25, "nvml:0", repeats=40)
    meter.thermal = Thermal(*degrees, share, ("hardware thermal slowdown",), ("power cap",))
    document = profiled()
    line = "throttled: hardware thermal slowdown; energy and time are those of a throttled device"
    assert line in document.profile.notes
    assert any(note.startswith("throttled while replaying ") for note in document.profile.notes)
    assert document.profile.energy.thermal == meter.thermal
    text = as_text(profile_report(document, []))
    assert line in text
    assert "41 °C, 88 °C, 91 °C" in text
    assert "throttled: hardware thermal slowdown (limited by power cap)" in text


def test_a_power_cap_is_reported_and_is_not_throttling(meter):
    degrees = [measured_figure(50.0, "nvml:0")] * 3
    meter.thermal = Thermal(*degrees, measured_figure(0.0, "nvml:0"), limits=("power cap",))
    document = profiled()
    assert not any("throttled" in note for note in document.profile.notes)
    rows = {row.name: row.value for row in energy_facts(document.profile.energy)[0].rows}
    assert rows["throttling"] == "none (limited by power cap)"


def test_without_a_thermometer_throttling_is_unknown(meter):
    known, _, unknown = energy_facts(profiled().profile.energy)
    assert not {"throttling", "temperature: start, end, max"} & {row.name for row in known.rows}
    names = ", ".join(name for name, _ in unknown.rows)
    assert "throttling" in names
    assert "temperature" in names


def test_the_parts_of_the_remainder_are_in_the_text_and_in_the_saved_document(meter, tmp_path):
    document = profiled()
    found = document.profile.energy
    ops = sum(row.each.value * row.count for row in found.kinds if row is not None)
    assert sum(part.energy.value for part in found.remainder) == pytest.approx(found.whole.value - ops)
    names = [row.name for row in energy_facts(found)[0].rows]
    assert "not in op energies: gaps between ops" in names
    assert "not in op energies: unexplained" in names
    assay.save(document, tmp_path / "net.assay.json")
    assert assay.load(tmp_path / "net.assay.json").profile.energy.remainder == found.remainder


def test_a_time_limit_shrinks_replays_then_leaves_out_the_fastest_kinds(meter):
    generous = profiled(seconds=100.0, window_s=2.0, repeats=3)
    assert set(meter.plans) == {(2.0, 3)}
    kinds = len(meter.plans) - 1
    assert kinds == len([row for row in generous.profile.energy.kinds if row is not None]) == 2
    meter.plans.clear()
    begin = meter.now
    document = profiled(seconds=5.0, window_s=2.0, repeats=2)
    assert meter.now - begin <= 5.0
    assert meter.plans[0] == (2.0, 1)  # the pass has at most half of the time
    assert len(meter.plans) == 3
    meter.plans.clear()
    begin = meter.now
    document = profiled(seconds=0.7, window_s=2.0, repeats=2)
    assert meter.now - begin <= 0.7
    assert meter.plans == [(0.0, 1), (0.0, 1)]
    found = document.profile.energy
    rows = [row for row in found.kinds if row is not None]
    assert len(rows) == 1
    note = "not replayed: 1 of 2 kinds of op above 1 % of op time; their energy is modelled"
    assert note in document.profile.notes
    assert found.covered < 1.0
    missing = next(part for part in found.remainder if part.name == "ops not replayed")
    assert missing.energy.value > 0


@pytest.mark.parametrize("limit", [-1.0, math.nan, "long"], ids=str)
def test_a_time_limit_must_be_a_number(limit):
    with pytest.raises(UsageError, match="seconds must be a number of at least 0"):
        EnergyOptions(seconds=limit).check()


def test_replaying_an_lstm_prints_nothing(meter, capfd, recwarn):
    document = profiled(nn.LSTM(4, 8, num_layers=2), torch.randn(3, 1, 4))
    assert any(row is not None for row in document.profile.energy.kinds)
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list
