"""Temperature and throttling of a measured window, from sensors that work, are missing, or fail midway."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
from clocks import VirtualTime
from machine_fakes import NVMLError, nvml, write
from test_machine_energy import PERIOD, WATTS, ticking

from assay.document.machine import Thermal
from assay.document.provenance import Measured, Unknown
from assay.machine import energy
from assay.machine.energy import CounterGroup, EnergyMeter, replay
from assay.machine.sensors import hwmon
from assay.machine.sensors import nvml as nvml_sensors
from assay.machine.thermal import NO_THERMOMETER, Thermometer, of_board, of_processor

WINDOW_S = 0.3
IDLE, APPLICATION_CLOCKS, POWER_CAP, SYNC_BOOST, HW_THERMAL, POWER_BRAKE = 0x1, 0x2, 0x4, 0x10, 0x40, 0x80


def board(module: ModuleType) -> Thermometer:
    return of_board(nvml_sensors.boards(module, {}).boards[0])


def thermal(virtual: VirtualTime, thermometer: Thermometer) -> Thermal:
    """What a replay of two windows finds; its energy must be that of a device without a thermometer."""
    sensors = CounterGroup((ticking(virtual),), PERIOD, thermometer=thermometer)
    found = replay(lambda: virtual.sleep(0.002), sensors, window_s=WINDOW_S, repeats=2)
    assert found.energy_j.value == pytest.approx(WATTS * 0.002, rel=0.02)
    return found.thermal


def heating(virtual: VirtualTime, bits: Callable[[float], int] = lambda _: IDLE) -> ModuleType:
    """A board that warms by 10 °C per second, with the throttle bits of each time since its start."""
    module, start = nvml(), virtual.now
    module.nvmlDeviceGetTemperature = lambda handle, kind: 40 + 10 * (virtual.now - start)
    module.nvmlDeviceGetCurrentClocksEventReasons = lambda handle: bits(virtual.now - start)
    return module


def test_temperatures_are_those_before_after_and_at_most(virtual):
    found = thermal(virtual, board(heating(virtual)))
    assert 40 < found.start_c.value < 42  # a few runs precede the window
    assert found.end_c.value == pytest.approx(found.start_c.value + 10 * 2 * WINDOW_S, abs=1.5)
    assert found.max_c.value == found.end_c.value
    assert found.max_c.how.repeats >= 2 * WINDOW_S / 0.02  # a fast counter is polled every 20 ms
    assert found.start_c.how == Measured("nvml:0")
    assert (found.throttled.value, found.throttles, found.limits) == (0.0, (), ())


def test_the_highest_temperature_may_lie_inside_the_window(virtual):
    module, start = nvml(), virtual.now
    module.nvmlDeviceGetTemperature = lambda handle, kind: 90 if 0.3 < virtual.now - start < 0.4 else 50
    found = thermal(virtual, board(module))
    assert (found.start_c.value, found.max_c.value, found.end_c.value) == (50, 90, 50)


def test_throttling_in_the_middle_of_the_window_is_found(virtual):
    module = heating(virtual, lambda elapsed: HW_THERMAL if 0.3 < elapsed < 0.36 else 0)
    found = thermal(virtual, board(module))
    assert found.throttles == ("hardware thermal slowdown",)
    assert 0.02 < found.throttled.value < 0.3
    assert found.limits == ()


@pytest.mark.parametrize(
    ("bits", "throttles", "limits"),
    [
        (IDLE, (), ()),
        (IDLE | SYNC_BOOST, (), ()),
        (POWER_CAP, (), ("power cap",)),
        (APPLICATION_CLOCKS | POWER_CAP, (), ("applications' clocks setting", "power cap")),
        (POWER_BRAKE | POWER_CAP, ("hardware power brake",), ("power cap",)),
        (0x8 | 0x20, ("hardware slowdown", "thermal slowdown"), ()),
    ],
)
def test_only_heat_and_the_power_brake_are_throttling(virtual, bits, throttles, limits):
    found = thermal(virtual, board(heating(virtual, lambda _: bits)))
    assert (found.throttles, found.limits) == (throttles, limits)
    assert found.throttled.value == float(bool(throttles))


def test_a_missing_sensor_gives_reasons_and_leaves_the_other(virtual):
    found = thermal(virtual, board(nvml(missing=("nvmlDeviceGetTemperature",))))
    for figure in (found.start_c, found.end_c, found.max_c):
        assert figure.how == Unknown("NVML: Not Supported")
    assert found.limits == ("power cap",)
    found = thermal(virtual, board(nvml(missing=("nvmlDeviceGetCurrentClocksEventReasons",))))
    assert found.throttled.how == Unknown("NVML: Not Supported")
    assert (found.throttles, found.limits) == ((), ())
    assert found.max_c.value == 41
    found = thermal(virtual, NO_THERMOMETER)
    assert found.start_c.how == found.max_c.how == Unknown("no temperature sensor covers this device")
    assert found.throttled.how == Unknown("no sensor reports throttling")


def test_a_sensor_that_fails_midway_leaves_what_was_certain(virtual):
    module, start = nvml(), virtual.now

    def until(moment: float, value: int) -> int:
        if virtual.now - start > moment:
            raise NVMLError("GPU is lost")
        return value

    module.nvmlDeviceGetTemperature = lambda handle, kind: until(0.3, 60)
    module.nvmlDeviceGetCurrentClocksEventReasons = lambda handle: until(0.3, HW_THERMAL)
    found = thermal(virtual, board(module))
    assert found.start_c.value == 60
    for figure in (found.end_c, found.max_c, found.throttled):
        assert figure.how == Unknown("NVML: GPU is lost")
    assert found.throttles == ("hardware thermal slowdown",)


def test_the_processor_is_as_hot_as_its_hottest_package(virtual, tmp_path):
    for number, degrees in enumerate((51_000, 63_000)):
        chip = tmp_path / "hwmon" / f"hwmon{number}"
        write(chip / "name", "coretemp")
        write(chip / "temp1_input", degrees)
        write(chip / "temp1_label", f"Package id {number}")
        write(chip / "temp2_input", 99_000)
        write(chip / "temp2_label", "Core 0")
    write(tmp_path / "thermal" / "thermal_zone0" / "type", "acpitz")
    write(tmp_path / "thermal" / "thermal_zone0" / "temp", 20_000)
    thermometer = of_processor(hwmon.find(tmp_path / "hwmon", tmp_path / "thermal").probes)
    assert thermometer.name == "hwmon:coretemp:Package id 0 + hwmon:coretemp:Package id 1"
    found = thermal(virtual, thermometer)
    assert (found.start_c.value, found.max_c.value) == (63.0, 63.0)
    assert found.throttled.value is None
    assert of_processor([]) is NO_THERMOMETER


def test_a_meter_has_the_temperature_of_its_window(virtual):
    sensors = CounterGroup((ticking(virtual),), PERIOD, thermometer=board(heating(virtual)))
    with EnergyMeter(sensors, virtual.perf_counter) as meter:
        virtual.sleep(0.4)
    assert meter.thermal.start_c.value == 40
    assert meter.thermal.end_c.value == pytest.approx(44)
    # A window too short for the counter still has a temperature.
    slow = CounterGroup((ticking(virtual, 60.0),), 60.0, thermometer=board(nvml()))
    with EnergyMeter(slow, virtual.perf_counter) as meter:
        virtual.sleep(0.01)
    assert meter.energy.value is None
    assert meter.thermal.max_c.value == 41


def test_each_device_has_its_own_thermometer(monkeypatch, virtual):
    module = nvml(boards=2)
    module.nvmlDeviceGetTemperature = lambda handle, kind: 40 + handle
    visible = nvml_sensors.boards(module, {})
    monkeypatch.setattr(energy.nvml, "boards", lambda: visible)
    monkeypatch.setattr(energy, "energy_counters", lambda *_: CounterGroup((ticking(virtual),), PERIOD))
    chosen = energy.counters_of_device("cuda", uuid="GPU-1abc")
    assert thermal(virtual, chosen.thermometer).max_c.value == 41
    assert chosen.thermometer.name == "nvml:1"
