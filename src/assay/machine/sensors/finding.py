"""All sensors of this machine, of every kind."""

from __future__ import annotations

from assay.machine.sensors import hwmon, nvml, powermetrics, rapl
from assay.machine.sensors.probe import ProbedSensors

KINDS = (nvml.find, rapl.find, hwmon.find, powermetrics.find)


def find() -> ProbedSensors:
    """The sensors that returned a value when first read, and why the rest did not."""
    sensors = ProbedSensors()
    for find_kind in KINDS:
        sensors.extend(find_kind())
    return sensors
