"""Energy per pass of two models, from a sensor that covers their device, in alternating windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from assay.document.machine import unknown_figure
from assay.document.provenance import Figure
from assay.machine.energy import CounterGroup, counters_of_device, replay
from assay.machine.reports import report_of_this_machine
from assay.machine.samples import median_figure
from assay.timing.device import synchronizer

_ORDER = (0, 1, 1, 0)
"""Which of the two runs in each window: a device that warms up then affects both alike."""
_DEVICES = ("cpu", "cuda")

Workload = Callable[[], object]


def energies(runs: tuple[Workload, Workload], device: torch.device) -> tuple[Figure, Figure]:
    """Joules per pass of both runs; unknown with the reason if no sensor covers the device."""
    sensors = _sensors(device)
    if isinstance(sensors, str):
        return unknown_figure(sensors), unknown_figure(sensors)
    found: tuple[list[Figure], list[Figure]] = ([], [])
    for side in _ORDER:
        window = replay(runs[side], sensors, synchronize=synchronizer(device), repeats=1)
        found[side].append(window.energy_j)
    return _median(found[0], sensors), _median(found[1], sensors)


def _sensors(device: torch.device) -> CounterGroup | str:
    if device.type not in _DEVICES:
        return f"no energy sensor covers {device.type}"
    report = report_of_this_machine(device.type)
    uuid = str(torch.cuda.get_device_properties(device).uuid) if device.type == "cuda" else ""
    return counters_of_device(device.type, report.sensors if report is not None else None, uuid)


def _median(windows: Sequence[Figure], sensors: CounterGroup) -> Figure:
    """The median of the windows; the first unknown one if there is any."""
    unknown = [each for each in windows if each.value is None]
    known = [each.value for each in windows if each.value is not None]
    return unknown[0] if unknown else median_figure(known, f"{sensors.name} between ticks, replayed")
