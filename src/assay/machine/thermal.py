"""Temperature and throttle reasons of a device, sampled before, during and after a measured window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_

from assay.document.machine import Thermal, measured_figure, unknown_figure
from assay.document.provenance import Figure
from assay.machine.sensors.nvml import SLOWDOWNS, NvmlBoard, throttles
from assay.machine.sensors.probe import TEMPERATURE, Probe, SensorError

_PROCESSOR = (
    "hwmon:k10temp:Tctl",
    "hwmon:zenpower:",
    "hwmon:coretemp:Package",
    "hwmon:cpu_thermal:",
    "thermal:x86_pkg_temp",
    "thermal:cpu",
)
"""Name prefixes of sensors of the whole processor's temperature, best first."""

Read = Callable[[], float]


@dataclass(frozen=True)
class Thermometer:
    """Reads the temperature and the throttle bits of one device; a text in place of either is why it has none."""

    name: str
    temperature: Read | str
    bits: Read | str


NO_THERMOMETER = Thermometer("", "no temperature sensor covers this device", "no sensor reports throttling")


def of_board(board: NvmlBoard) -> Thermometer:
    """The temperature of a board's chip, and its throttle reasons."""
    return Thermometer(f"nvml:{board.index}", board.temperature_c, board.throttle_bits)


def of_processor(probes: Sequence[Probe]) -> Thermometer:
    """The highest temperature of the processor's packages, if one of `probes` reports it."""
    for prefix in _PROCESSOR:
        chosen = [each for each in probes if each.measures == TEMPERATURE and each.name.startswith(prefix)]
        if chosen:
            name = " + ".join(probe.name for probe in chosen)
            return Thermometer(name, partial(_highest, chosen), NO_THERMOMETER.bits)
    return NO_THERMOMETER


def _highest(probes: Sequence[Probe]) -> float:
    return max(probe.read() for probe in probes)


class _Samples:
    """The values that one reader returned; it is not read again after it failed."""

    def __init__(self, read: Read | str) -> None:
        self._read = read
        self.why = read if isinstance(read, str) else ""
        self.values: list[float] = []

    def add(self) -> None:
        if self.why or isinstance(self._read, str):
            return
        try:
            self.values.append(self._read())
        except SensorError as error:
            self.why = str(error)

    def figure(self, value: Callable[[Sequence[float]], float], by: str) -> Figure:
        """`value` of all samples; unknown if one of them failed."""
        if self.why or not self.values:
            return unknown_figure(self.why or "not sampled")
        return measured_figure(value(self.values), by, repeats=len(self.values))


class ThermalLog:
    """The samples of a thermometer; the first is taken before the window and the last after it."""

    def __init__(self, thermometer: Thermometer) -> None:
        self._name = thermometer.name
        self._degrees, self._bits = _Samples(thermometer.temperature), _Samples(thermometer.bits)

    def sample(self) -> None:
        """Take one sample; a sensor that fails makes its values unknown."""
        self._degrees.add()
        self._bits.add()

    def thermal(self) -> Thermal:
        """The temperature and the throttle reasons of all samples."""
        degrees, first = self._degrees, self._degrees.values[:1]
        bits = [int(value) for value in self._bits.values]
        seen = reduce(or_, bits, 0)
        return Thermal(
            start_c=measured_figure(first[0], self._name) if first else unknown_figure(degrees.why or "not sampled"),
            end_c=degrees.figure(lambda values: values[-1], self._name),
            max_c=degrees.figure(max, self._name),
            throttled=self._bits.figure(
                lambda values: sum(bool(int(value) & SLOWDOWNS) for value in values) / len(values), self._name
            ),
            throttles=tuple(throttles(seen & SLOWDOWNS)),
            limits=tuple(throttles(seen & ~SLOWDOWNS)),
        )
