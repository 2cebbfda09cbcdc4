"""Sensors that exist, are missing, must not be read, or stop responding."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from machine_fakes import Clock, NVMLError, nvml, write, zone

from assay.machine.sensors import finding, hwmon, powermetrics, rapl
from assay.machine.sensors import nvml as nvml_sensors
from assay.machine.sensors.cadence import watch
from assay.machine.sensors.counter import additive_probes
from assay.machine.sensors.probe import ENERGY, POWER, TEMPERATURE, Probe, SensorError


@pytest.fixture
def powercap(tmp_path: Path) -> Path:
    """A machine with two packages, one with cores and memory, inside a platform zone."""
    zone(tmp_path, "intel-rapl:0", "package-0", 1_000_000)
    zone(tmp_path, "intel-rapl:0:0", "core", 400_000)
    zone(tmp_path, "intel-rapl:0:1", "dram", 200_000)
    zone(tmp_path, "intel-rapl:1", "package-1", 2_000_000)
    zone(tmp_path, "intel-rapl:2", "psys", 9_000_000)
    return tmp_path


def test_rapl_zones_are_found_in_joules(powercap):
    found = rapl.find(powercap)
    assert found.unusable == []
    assert {probe.name: probe.read() for probe in found.probes} == {
        "rapl:package-0": 1.0,
        "rapl:package-0/core": pytest.approx(0.4),
        "rapl:package-0/dram": pytest.approx(0.2),
        "rapl:package-1": 2.0,
        "rapl:psys": 9.0,
    }


def test_zones_inside_zones_are_not_added_twice(powercap):
    added = additive_probes(rapl.find(powercap).probes)
    assert [probe.name for probe in added] == ["rapl:package-0", "rapl:package-0/dram", "rapl:package-1"]


def test_missing_powercap_is_one_row_with_the_reason(tmp_path):
    found = rapl.find(tmp_path / "nothing")
    assert found.probes == []
    assert [(row.name, row.value) for row in found.unusable] == [("rapl", None)]
    assert "virtual machines" in found.unusable[0].why


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_counter_without_permission_as_a_user(powercap):
    (powercap / "intel-rapl:1" / "energy_uj").chmod(0)
    assert "permission denied" in rapl.find(powercap).unusable[0].why


def test_a_counter_without_permission(powercap, monkeypatch):
    plain = Path.read_text

    def guarded(self: Path, *args: object, **options: object) -> str:
        if self.name == "energy_uj":
            raise PermissionError(13, "Permission denied")
        return plain(self, *args, **options)

    monkeypatch.setattr(Path, "read_text", guarded)
    found = rapl.find(powercap)
    assert found.probes == []
    assert len(found.unusable) == 5
    assert all("permission denied" in row.why and row.value is None for row in found.unusable)


@pytest.mark.parametrize("content", ["", "garbage", "12 apples"])
def test_a_counter_whose_value_is_not_a_number(powercap, content):
    write(powercap / "intel-rapl:1" / "energy_uj", content)
    assert [row.name for row in rapl.find(powercap).unusable] == ["rapl:package-1"]


def test_a_counter_that_disappears(powercap):
    probe = next(probe for probe in rapl.find(powercap).probes if probe.name == "rapl:package-1")
    (powercap / "intel-rapl:1" / "energy_uj").unlink()
    with pytest.raises(SensorError, match="no longer present"):
        probe.read()


def test_hwmon_and_thermal_zones(tmp_path):
    write(tmp_path / "hwmon" / "hwmon0" / "name", "k10temp")
    write(tmp_path / "hwmon" / "hwmon0" / "temp1_input", 45250)
    write(tmp_path / "hwmon" / "hwmon0" / "temp1_label", "Tctl")
    write(tmp_path / "hwmon" / "hwmon0" / "power1_average", 12_500_000)
    write(tmp_path / "hwmon" / "hwmon0" / "fan1_input", 900)
    write(tmp_path / "thermal" / "thermal_zone0" / "type", "x86_pkg_temp")
    write(tmp_path / "thermal" / "thermal_zone0" / "temp", 51000)
    found = hwmon.find(tmp_path / "hwmon", tmp_path / "thermal")
    assert [(probe.name, probe.measures, probe.read()) for probe in found.probes] == [
        ("hwmon:k10temp:power1", POWER, 12.5),
        ("hwmon:k10temp:Tctl", TEMPERATURE, 45.25),
        ("thermal:x86_pkg_temp", TEMPERATURE, 51.0),
    ]
    assert additive_probes(found.probes) == []


def test_a_machine_without_temperatures_is_reported(tmp_path):
    found = hwmon.find(tmp_path / "a", tmp_path / "b")
    assert [row.measures for row in found.unusable] == [TEMPERATURE]


def test_powermetrics_runs_only_as_root_on_macos():
    text = "CPU Power: 900 mW\nCombined Power (CPU + GPU + ANE): 1234 mW\n"
    assert powermetrics.find(platform="linux").probes == []
    assert "root" in powermetrics.find(platform="darwin", root=False).unusable[0].why
    assert powermetrics.find(lambda: text, platform="darwin", root=True).probes[0].read() == 1.234
    odd = powermetrics.find(lambda: "nothing", platform="darwin", root=True)
    assert odd.probes == []
    assert "no combined power" in odd.unusable[0].why


def test_nvml_gives_joules_watts_and_degrees():
    probes = {probe.name: probe for probe in nvml_sensors.find(nvml()).probes}
    assert probes["nvml:0:power"].read() == 200.0
    assert probes["nvml:0:temperature"].read() == 41.0
    before = probes["nvml:0:energy"].read()
    assert probes["nvml:0:energy"].read() - before == pytest.approx(20.0)


def test_the_power_limit_of_a_board():
    assert nvml_sensors.limit_w("1abc", nvml(2)) == 700.0
    assert nvml_sensors.limit_w("another", nvml(2)) is None
    assert nvml_sensors.limit_w("0abc", nvml(missing=("nvmlDeviceGetEnforcedPowerLimit",))) is None


def test_a_board_without_an_energy_counter_uses_its_power():
    found = nvml_sensors.find(nvml(missing=("nvmlDeviceGetTotalEnergyConsumption",)))
    assert [(row.name, row.why) for row in found.unusable] == [("nvml:0:energy", "NVML: Not Supported")]
    assert [probe.name for probe in additive_probes(found.probes)] == ["nvml:0:power"]
    assert [probe.name for probe in additive_probes(nvml_sensors.find(nvml()).probes)] == ["nvml:0:energy"]


def test_no_driver_is_one_row():
    found = nvml_sensors.find(nvml(init=NVMLError("Driver Not Loaded")))
    assert [row.why for row in found.unusable] == ["no NVIDIA driver (Driver Not Loaded)"]


def test_a_board_that_fell_off_the_bus_does_not_hide_the_rest():
    module = nvml(2)

    def handle(index: int) -> int:
        if index == 0:
            raise NVMLError("GPU is lost")
        return index

    module.nvmlDeviceGetHandleByIndex = handle
    assert [board.index for board in nvml_sensors.boards(module, {}).boards] == [1]


def test_nvidia_ml_py_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    assert "not installed" in nvml_sensors.find().unusable[0].why
    monkeypatch.setattr(nvml_sensors, "_driver_there", lambda: True)
    assert nvml_sensors.boards().may_exist
    monkeypatch.setattr(nvml_sensors, "_driver_there", lambda: False)
    assert not nvml_sensors.boards().may_exist
    assert not nvml_sensors.boards(nvml(init=NVMLError("Driver Not Loaded"))).may_exist


@pytest.mark.parametrize(
    ("visible", "shown"),
    [("1", [1]), ("2,0", [2, 0]), ("GPU-1abc", [1]), ("", []), ("-1", []), ("0,9,1", [0]), ("0,0,1", [0])],
)
def test_only_visible_boards_in_their_order(visible, shown):
    found = nvml_sensors.boards(nvml(3), {"CUDA_VISIBLE_DEVICES": visible})
    assert [board.index for board in found.boards] == shown
    assert bool(found.why) == (not shown)


def test_a_name_that_an_old_nvidia_ml_py_lacks():
    module = nvml()
    del module.nvmlDeviceGetPowerUsage
    assert "has no nvmlDeviceGetPowerUsage" in nvml_sensors.find(module).unusable[0].why


def test_reasons_for_low_clocks_in_words():
    assert nvml_sensors.throttles(0x4 | 0x40) == ["power cap", "hardware thermal slowdown"]
    assert nvml_sensors.throttles(0x1) == []


def ticking(clock: Clock, period: float, watts: float, wraps_at: float | None = None) -> Probe:
    """A counter that updates once per period."""

    def read() -> float:
        joules = int(clock.now / period) * period * watts
        return joules % wraps_at if wraps_at else joules

    return Probe("fake:energy", ENERGY, "board", read, wraps_at=wraps_at, adds=True)


@pytest.mark.parametrize("period", [0.02, 0.1])
def test_the_period_and_the_idle_power_are_found(period):
    clock = Clock()
    row = watch([ticking(clock, period, 123.0)], 1.5, clock=clock, sleep=clock.sleep)[0]
    assert row.usable
    assert row.period.value == pytest.approx(period, rel=0.05)
    assert row.idle_w.value == pytest.approx(123.0, rel=0.05)
    assert row.value is None


def test_a_counter_that_does_not_change_is_unusable():
    clock = Clock()
    row = watch([Probe("fake", ENERGY, "board", lambda: 7.0)], 0.7, clock=clock, sleep=clock.sleep)[0]
    assert "did not change" in row.why
    assert row.idle_w.value is None
    assert row.period.value is None


def test_a_counter_that_decreases_is_unusable():
    clock = Clock()
    values = iter([5.0, 6.0, 1.0, *map(float, range(2, 10_000))])
    row = watch([Probe("fake", ENERGY, "board", lambda: next(values))], 0.2, clock=clock, sleep=clock.sleep)[0]
    assert "decreased" in row.why


def test_a_sensor_that_fails_while_watched():
    clock, values = Clock(), iter([20.0, 21.0])

    def read() -> float:
        try:
            return next(values)
        except StopIteration:
            raise SensorError("it is gone") from None

    row = watch([Probe("fake", TEMPERATURE, "board", read)], 0.2, clock=clock, sleep=clock.sleep)[0]
    assert row.why == "reading failed: it is gone"
    assert row.value is None


def test_a_slow_sensor_is_unusable():
    clock = Clock()

    def slow() -> float:
        clock.sleep(5.0)
        return 40.0

    row = watch([Probe("fake", TEMPERATURE, "zone", slow)], 0.2, clock=clock, sleep=clock.sleep)[0]
    assert row.why == "a read took 5.0 s"
    assert row.value is None


def test_a_temperature_that_does_not_change_is_still_a_value():
    clock = Clock()
    row = watch([Probe("fake", TEMPERATURE, "zone", lambda: 40.0)], 0.2, clock=clock, sleep=clock.sleep)[0]
    assert (row.usable, row.value, row.period.value) == (True, 40.0, None)


def test_all_kinds_of_sensors_return_a_result():
    found = finding.find()
    assert found.probes or found.unusable
    assert all(row.why for row in found.unusable)
