"""Temperature, power and energy sensors that Linux drivers expose under hwmon and as thermal zones."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from assay.machine.sensors.probe import ENERGY, POWER, TEMPERATURE, Probe, ProbedSensors, label, number

HWMON = Path("/sys/class/hwmon")
THERMAL = Path("/sys/class/thermal")
_INPUT = re.compile(r"(temp|power|energy)(\d+)_(input|average)")
_KINDS = {"temp": (TEMPERATURE, 1e-3), "power": (POWER, 1e-6), "energy": (ENERGY, 1e-6)}
"""The measured quantity, and the factor from the driver's unit to ours."""


def find(hwmon: Path = HWMON, thermal: Path = THERMAL) -> ProbedSensors:
    """Every input of every driver, then the thermal zones."""
    sensors = ProbedSensors()
    for chip in sorted(hwmon.glob("hwmon*")):
        driver = label(chip / "name", chip.name)
        for path in sorted(chip.glob("*_*")):
            match = _INPUT.fullmatch(path.name)
            if match:
                sensors.try_out(_probe(driver, path, match))
    for zone in sorted(thermal.glob("thermal_zone*")):
        name = f"thermal:{label(zone / 'type', zone.name)}"
        sensors.try_out(Probe(name, TEMPERATURE, "zone", partial(number, zone / "temp", 1e-3)))
    kinds = {*(one.measures for one in sensors.probes), *(one.measures for one in sensors.unusable)}
    if TEMPERATURE not in kinds:
        sensors.add_missing(
            "hwmon", TEMPERATURE, "machine", "no temperature sensors: neither hwmon nor thermal zones"
        )
    return sensors


def _probe(driver: str, path: Path, match: re.Match[str]) -> Probe:
    measures, scale = _KINDS[match[1]]
    named = label(path.with_name(f"{match[1]}{match[2]}_label"), match[1] + match[2])
    # CPU drivers list cores as well as sockets; the sockets already include their cores.
    adds = measures == ENERGY and named.lower().startswith("esocket")
    return Probe(f"hwmon:{driver}:{named}", measures, driver, partial(number, path, scale), adds=adds)
