"""The processor's energy counters, which Linux exposes under powercap.

Zones are nested (the platform contains packages, a package contains its cores), so only packages and memory (DRAM)
are added up.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from assay.machine.sensors.probe import ENERGY, Probe, ProbedSensors, SensorError, label, number

ROOT = Path("/sys/class/powercap")
_MICRO = 1e-6


def find(root: Path = ROOT) -> ProbedSensors:
    """The energy counter of every zone that has one."""
    sensors = ProbedSensors()
    zones = sorted(zone for zone in root.glob("intel-rapl:*") if (zone / "energy_uj").exists())
    if not zones:
        sensors.add_missing("rapl", ENERGY, "package", "no processor energy counters (virtual machines have none)")
    for zone in zones:
        sensors.try_out(_probe(root, zone))
    return sensors


def _probe(root: Path, zone: Path) -> Probe:
    own = label(zone / "name", zone.name)
    # intel-rapl:0:2 is nested in intel-rapl:0.
    outer = zone.name.rpartition(":")[0] if zone.name.count(":") > 1 else ""
    name = f"{label(root / outer / 'name', outer)}/{own}" if outer else own
    return Probe(
        name=f"rapl:{name}",
        measures=ENERGY,
        scope=own.rstrip("-0123456789"),
        read=partial(number, zone / "energy_uj", _MICRO),
        wraps_at=_range(zone),
        adds=own.startswith("package") or own == "dram",
    )


def _range(zone: Path) -> float | None:
    try:
        return number(zone / "max_energy_range_uj", _MICRO)
    except SensorError:
        return None
