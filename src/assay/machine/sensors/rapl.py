"""Energy counters of the processor, as Linux shows them under powercap.

Zones lie inside one another (the platform holds packages, a package holds its cores), so only packages and the
memory beside them are added up.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from assay.machine.sensors.probe import ENERGY, Probe, ProbedSensors, SensorError, label, number

ROOT = Path("/sys/class/powercap")
_MICRO = 1e-6


def find(root: Path = ROOT) -> ProbedSensors:
    """Every zone that has a counter."""
    found = ProbedSensors()
    zones = sorted(zone for zone in root.glob("intel-rapl:*") if (zone / "energy_uj").exists())
    if not zones:
        found.absent("rapl", ENERGY, "package", "no energy counters of the processor (none in virtual machines)")
    for zone in zones:
        found.try_out(_probe(root, zone))
    return found


def _probe(root: Path, zone: Path) -> Probe:
    own = label(zone / "name", zone.name)
    # intel-rapl:0:2 lies inside intel-rapl:0.
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
