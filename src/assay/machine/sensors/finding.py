"""All sensors of this machine, from every kind there is."""

from __future__ import annotations

from assay.machine.sensors import hwmon, nvml, powermetrics, rapl
from assay.machine.sensors.probe import ProbedSensors

KINDS = (nvml.find, rapl.find, hwmon.find, powermetrics.find)


def find() -> ProbedSensors:
    """What gave a value when it was first read, and why the others did not."""
    found = ProbedSensors()
    for kind in KINDS:
        found.extend(kind())
    return found
