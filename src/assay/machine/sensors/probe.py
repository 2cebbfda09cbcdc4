"""A readable sensor, and the error for a read that failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from assay.document.machine import Sensor

ENERGY, POWER, TEMPERATURE = "energy", "power", "temperature"
UNITS = {ENERGY: "J", POWER: "W", TEMPERATURE: "°C"}


class SensorError(Exception):
    """A sensor could not be read; the message gives the reason in one line."""


@dataclass(frozen=True)
class Probe:
    """One sensor: `read` returns joules, watts or degrees Celsius, or raises `SensorError`."""

    name: str
    measures: str
    scope: str
    read: Callable[[], float]
    wraps_at: float | None = None
    """The joules at which an energy counter wraps to zero; None if it does not wrap."""
    adds: bool = False
    """Whether its energy may be added to that of other such sensors without counting anything twice."""

    def row(self, why: str = "") -> Sensor:
        """The document row of this sensor; `why` is the reason it is unusable, if it is."""
        return Sensor(self.name, self.measures, UNITS[self.measures], self.scope, why=why)


@dataclass
class ProbedSensors:
    """Sensors that returned a value, and rows of those that did not."""

    probes: list[Probe] = field(default_factory=list)
    unusable: list[Sensor] = field(default_factory=list)

    def try_out(self, probe: Probe) -> None:
        """Read `probe` once; keep it if it returned a value, else add a row with the reason."""
        try:
            probe.read()
        except SensorError as error:
            self.unusable.append(probe.row(str(error)))
        else:
            self.probes.append(probe)

    def add_missing(self, name: str, measures: str, scope: str, why: str) -> None:
        """Add a row for a kind of sensor that this machine does not have."""
        self.unusable.append(Sensor(name, measures, UNITS[measures], scope, why=why))

    def extend(self, other: ProbedSensors) -> None:
        """Add all sensors of `other`."""
        self.probes += other.probes
        self.unusable += other.unusable


def number(path: Path, scale: float = 1.0) -> float:
    """The number in a kernel file, multiplied by `scale`; raises `SensorError` if it cannot be read."""
    try:
        return int(path.read_text()) * scale
    except PermissionError as error:
        raise SensorError("permission denied: run as root or make it readable for this user") from error
    except FileNotFoundError as error:
        raise SensorError("no longer present") from error
    except OSError as error:
        raise SensorError(f"reading failed: {error.strerror or error}") from error
    except ValueError as error:
        raise SensorError("value is not a number") from error


def label(path: Path, fallback: str) -> str:
    """The text of a kernel file, or `fallback` if it is empty or cannot be read."""
    try:
        return path.read_text(errors="replace").strip() or fallback
    except OSError:
        return fallback
