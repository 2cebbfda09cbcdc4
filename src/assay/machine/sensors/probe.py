"""A thing that can be read, and a read that gave nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from assay.document.machine import Sensor

ENERGY, POWER, TEMPERATURE = "energy", "power", "temperature"
UNITS = {ENERGY: "J", POWER: "W", TEMPERATURE: "°C"}


class SensorError(Exception):
    """A read that gave no value; says why in one line."""


@dataclass(frozen=True)
class Probe:
    """One sensor: `read` gives joules, watts or degrees, or raises `SensorError`."""

    name: str
    measures: str
    scope: str
    read: Callable[[], float]
    wraps_at: float | None = None
    """Where an energy counter begins again, in joules."""
    adds: bool = False
    """Whether it is one of those that together are the whole, without counting anything twice."""

    def row(self, why: str = "") -> Sensor:
        """The row of a document, with why it is of no use where it is."""
        return Sensor(self.name, self.measures, UNITS[self.measures], self.scope, why=why)


@dataclass
class ProbedSensors:
    """Sensors that gave a value, and rows of those that did not."""

    probes: list[Probe] = field(default_factory=list)
    useless: list[Sensor] = field(default_factory=list)

    def try_out(self, probe: Probe) -> None:
        """Read it once and put it where it belongs."""
        try:
            probe.read()
        except SensorError as error:
            self.useless.append(probe.row(str(error)))
        else:
            self.probes.append(probe)

    def absent(self, name: str, measures: str, scope: str, why: str) -> None:
        """A kind of sensor this machine does not have."""
        self.useless.append(Sensor(name, measures, UNITS[measures], scope, why=why))

    def extend(self, other: ProbedSensors) -> None:
        """All of `other` too."""
        self.probes += other.probes
        self.useless += other.useless


def number(path: Path, scale: float = 1.0) -> float:
    """The number in a file of the kernel's, times `scale`."""
    try:
        return int(path.read_text()) * scale
    except PermissionError as error:
        raise SensorError("permission denied: run as root or let this user read it") from error
    except FileNotFoundError as error:
        raise SensorError("it is gone") from error
    except OSError as error:
        raise SensorError(f"reading failed: {error.strerror or error}") from error
    except ValueError as error:
        raise SensorError("it gave no number") from error


def label(path: Path, fallback: str) -> str:
    """The short text in a file of the kernel's, or `fallback`."""
    try:
        return path.read_text(errors="replace").strip() or fallback
    except OSError:
        return fallback
