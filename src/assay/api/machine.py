"""Measuring this machine once: ceilings, sensors, idle power, and on request what work takes in energy."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from msgspec.structs import replace

from assay import host
from assay.analysis.energy import EnergyWork
from assay.analysis.energy_fit import EnergySample, calibrate
from assay.api.options import OnStep
from assay.document.machine import EnergyModel, Hardware, MachineReport, Scaling, Sensor, unknown
from assay.document.provenance import Figure
from assay.errors import ReadError, UsageError, WriteError
from assay.machine import reports
from assay.machine.energy import CounterGroup, of_device, replay
from assay.machine.hardware import CPU, CUDA, identify
from assay.machine.load import BUSY, OtherWork
from assay.machine.sensors import nvml
from assay.machine.sensors.cadence import watch
from assay.machine.sensors.finding import find
from assay.machine.sensors.probe import ENERGY, POWER

_DEVICES = ("cpu", "cuda")
_WINDOW_S = 1.0
_DISAGREE = 0.15
_REPEATS = 2


def _silent(line: str) -> None:
    return None


def measure_machine(
    device: str | None = None, *, fresh: bool = False, energy: bool = False, on_step: OnStep = _silent
) -> MachineReport:
    """What this machine can do: measured peaks, bandwidths, overheads and sensors; from the cache where it has them.

    Args:
        device: `"cpu"` or `"cuda"`; None chooses the GPU where there is one.
        fresh: Measure again even if the cache has a report.
        energy: Replay operations for a minute to calibrate the energy model, where a sensor allows it.
        on_step: Called with a line of text before each step.
    """
    if device is not None and device not in _DEVICES:
        raise UsageError(f"unknown device {device!r}: expected cpu or cuda")
    chosen = device or _default()
    hardware = identify(chosen)
    known = None if fresh else reports.kept(hardware.key)
    if known is not None and _threads_agree(known) and (known.energy is not None or not energy):
        return known
    report = _measured(chosen, hardware, energy, on_step)
    try:
        reports.keep(report)
    except WriteError as error:
        return replace(report, notes=(*report.notes, f"not kept: {error}"))
    return report


def calibrated(device: str, sensors: CounterGroup, name: str, on_step: OnStep = _silent) -> EnergyModel | None:
    """The energy model of this device, from replaying operations of many kinds; None where a sensor failed."""
    import torch

    from assay.timing.peaks.bursts import place
    from assay.timing.peaks.operations import operations

    where, samples = place(device), []
    with torch.inference_mode():
        for operation in operations(where):
            on_step(f"energy of {operation.name}")
            found = replay(
                operation.run, sensors, synchronize=where.synchronize, window_s=_WINDOW_S, repeats=_REPEATS
            )
            if found.energy_j.value is None or found.time_s.value is None or found.energy_j.value <= 0:
                return None
            work = EnergyWork(operation.flops, operation.bytes)
            samples.append(EnergySample(operation.name, work, found.time_s.value, found.energy_j.value))
    source = f"calibration on this machine with {sensors.name}, {host.today()}"
    return calibrate(samples, name, source, sensors.idle_w.value)


def _measured(device: str, hardware: Hardware, energy: bool, on_step: OnStep) -> MachineReport:
    measuring = _measuring()
    why = measuring.available(device)
    if why:
        raise ReadError(f"cannot measure {device}: {why}")
    start, others, uuid = time.perf_counter(), OtherWork(), ""
    if device == CUDA:
        board = measuring.board()
        uuid = board.uuid
        hardware = replace(hardware, name=board.name, memory_bytes=board.memory_bytes, caches=board.caches)
    on_step("sensors, idle")
    sensors = _sensors()
    peaks = measuring.measure(device, hardware.caches, hardware.memory_bytes, on_step)
    gauges = of_device(device, sensors, uuid)
    share = others.share()
    model = (
        calibrated(device, gauges, hardware.name, on_step) if energy and isinstance(gauges, CounterGroup) else None
    )
    return MachineReport(
        hardware=replace(hardware, threads=peaks.threads),
        date=host.today(),
        arithmetic=tuple(peaks.arithmetic),
        bandwidth=tuple(peaks.bandwidth),
        levels=tuple(peaks.levels),
        sweep=tuple(peaks.sweep),
        overhead=tuple(peaks.overhead),
        scaling=_believable(peaks.scaling, share),
        sensors=tuple(sensors),
        idle_w=_idle(gauges),
        energy=model,
        others=share,
        took_s=time.perf_counter() - start,
        notes=(*_notes(share, gauges, energy, model), *_disagreements(sensors)),
    )


def _believable(rows: Sequence[Scaling], others: float | None) -> tuple[Scaling, ...]:
    """What threads bring, where nobody else was using the cores they wanted."""
    if others is None or others <= BUSY:
        return tuple(rows)
    busy = unknown("other work kept the processor busy")
    return tuple(row if row.threads == 1 else Scaling(row.threads, busy) for row in rows)


def _sensors() -> list[Sensor]:
    found = find()
    return [*watch(found.probes), *found.useless]


def _idle(gauges: CounterGroup | str) -> Figure:
    return unknown(gauges) if isinstance(gauges, str) else gauges.idle_w


def _notes(
    share: float | None, gauges: CounterGroup | str, asked: bool, model: EnergyModel | None
) -> tuple[str, ...]:
    notes = []
    if share is not None and share > BUSY:
        notes.append(
            f"other work took {share:.0%} of the processor: peaks of several threads and bandwidths are lower "
            "bounds, idle power an upper one; measure again on a quiet machine with --fresh"
        )
    if asked and model is None:
        why = gauges if isinstance(gauges, str) else "a sensor stopped answering"
        notes.append(f"the energy model could not be calibrated: {why}")
    return tuple(notes)


def _disagreements(sensors: Sequence[Sensor]) -> list[str]:
    """Boards whose energy counter and power sensor tell different stories while idle."""
    idle = {row.name: row.idle_w.value for row in sensors if row.idle_w.value}
    notes = []
    for name, power in idle.items():
        counted = idle.get(name.removesuffix(POWER) + ENERGY) if name.endswith(f":{POWER}") else None
        if counted and power and abs(counted / power - 1) > _DISAGREE:
            notes.append(f"{name} says {power:.0f} W where the energy counter says {counted:.0f} W")
    return notes


def _threads_agree(report: MachineReport) -> bool:
    """Whether torch, if it is here already, still uses as many threads as were measured."""
    torch = sys.modules.get("torch")
    return torch is None or report.hardware.threads == torch.get_num_threads()


def _default() -> str:
    """The board where torch can use one, else the processor; torch is asked only where there may be a board."""
    return str(_measuring().default_device()) if nvml.boards().possible else CPU


def _measuring() -> ModuleType:
    try:
        return import_module("assay.timing.peaks.measuring")
    except ImportError as error:
        raise ReadError(f"measuring a machine needs torch, which cannot be imported: {error}") from error
