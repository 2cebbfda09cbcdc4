"""`assay.measure_machine`: this machine's limits, sensors and idle power, and optionally an energy model."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from msgspec.structs import replace

from assay import host
from assay.api.arguments import check_callable
from assay.api.calibrating import calibrate_energy_model
from assay.api.options import OnStep
from assay.document.machine import EnergyModel, Hardware, MachineReport, Scaling, Sensor, unknown_figure
from assay.document.provenance import Figure
from assay.errors import ReadError, UsageError, WriteError
from assay.machine import reports
from assay.machine.energy import CounterGroup, counters_of_device
from assay.machine.hardware import CPU, CUDA, identify
from assay.machine.load import BUSY, OtherLoad
from assay.machine.sensors import nvml
from assay.machine.sensors.cadence import watch
from assay.machine.sensors.finding import find
from assay.machine.sensors.probe import ENERGY, POWER
from assay.timing.peaks.effort import FULL, QUICK

_DEVICES = ("cpu", "cuda")
_DISAGREE = 0.15


def measure_machine(
    device: str | None = None,
    *,
    fresh: bool = False,
    energy: bool = False,
    quick: bool = False,
    on_step: OnStep | None = None,
) -> MachineReport:
    """Measure the limits of this machine: peak FLOP/s, bandwidths, overheads and sensors.

    The report is cached, so later calls return it without measuring again.

    Args:
        device: `"cpu"` or `"cuda"`. None chooses the GPU if there is one, and the CPU otherwise.
        fresh: Measure again even if there is a cached report.
        energy: Also replay ops for about two minutes to calibrate the energy model, if there is an energy sensor.
        quick: Measure in approximately five seconds, without caches and thread scaling. A cached report of
            a full measurement is returned if there is one, and never replaced by a quick one.
        on_step: Called with one line of text before each step. Default: steps are not reported.

    Returns:
        The report, with FLOP/s, bytes per second, seconds and watts. Its `notes` list what could not be measured.

    Raises:
        UsageError: `device` is neither `"cpu"` nor `"cuda"`, or both `energy` and `quick` are set.
        ReadError: The device cannot be measured, for example because torch or the GPU is not available.
    """
    if device is not None and device not in _DEVICES:
        raise UsageError(f"unknown device {device!r}: expected cpu or cuda")
    check_callable("on_step", on_step, optional=True)
    if energy and quick:
        raise UsageError("energy and quick exclude each other: calibrating the energy model takes a minute")
    device = device or _default()
    hardware = identify(device)
    cached = None if fresh else reports.load_report(hardware.key)
    if cached is not None and _suffices(cached, energy=energy, quick=quick):
        return cached
    report = _measure(device, hardware, energy, quick, on_step or (lambda _: None))
    try:
        reports.store_report(report)
    except WriteError as error:
        return replace(report, notes=(*report.notes, f"the report was not cached: {error}"))
    return report


def _measure(device: str, hardware: Hardware, energy: bool, quick: bool, on_step: OnStep) -> MachineReport:
    measuring = _measuring_module()
    why = measuring.unavailable_reason(device)
    if why:
        raise ReadError(f"cannot measure {device}: {why}")
    start, others, uuid = time.perf_counter(), OtherLoad(), ""
    if device == CUDA:
        board = measuring.board()
        uuid = board.uuid
        hardware = replace(hardware, name=board.name, memory_bytes=board.memory_bytes, caches=board.caches)
    on_step("sensors and idle power")
    sensors = _sensors()
    effort = QUICK if quick else FULL
    peaks = measuring.measure(device, hardware.caches, hardware.memory_bytes, on_step, effort)
    gauges = counters_of_device(device, sensors, uuid)
    share = others.share()
    report = MachineReport(
        hardware=replace(hardware, threads=peaks.threads),
        date=host.today(),
        arithmetic=tuple(peaks.arithmetic),
        bandwidth=tuple(peaks.bandwidth),
        levels=tuple(peaks.levels),
        sweep=tuple(peaks.sweep),
        overhead=tuple(peaks.overhead),
        scaling=_reliable_scaling(peaks.scaling, share),
        sensors=tuple(sensors),
        idle_w=_idle(gauges),
        others=share,
        quick=quick,
        left_out=tuple(peaks.left_out),
    )
    model = None
    if energy and isinstance(gauges, CounterGroup):
        model = calibrate_energy_model(report, gauges, nvml.limit_w(uuid) if uuid else None, on_step)
    notes = (*_quick_note(peaks.left_out), *_notes(share, gauges, energy, model), *_disagreements(sensors))
    return replace(report, energy=model, took_s=time.perf_counter() - start, notes=notes)


def _reliable_scaling(rows: Sequence[Scaling], others: float | None) -> tuple[Scaling, ...]:
    """The thread scaling, with unknown speed-ups if other processes kept the CPU busy during the measurement."""
    if others is None or others <= BUSY:
        return tuple(rows)
    busy = unknown_figure("other processes kept the CPU busy")
    return tuple(row if row.threads == 1 else Scaling(row.threads, busy) for row in rows)


def _sensors() -> list[Sensor]:
    search = find()
    return [*watch(search.probes), *search.unusable]


def _idle(gauges: CounterGroup | str) -> Figure:
    return unknown_figure(gauges) if isinstance(gauges, str) else gauges.idle_w


def _quick_note(left_out: Sequence[str]) -> list[str]:
    missing = ", ".join(left_out)
    return [f"quick measurement without {missing}: run `assay machine` for a full one"] if left_out else []


def _notes(
    share: float | None, gauges: CounterGroup | str, energy: bool, model: EnergyModel | None
) -> tuple[str, ...]:
    notes = []
    if share is not None and share > BUSY:
        notes.append(
            f"machine busy ({100 * share:.0f} % used by other processes): multi-thread peaks and bandwidths are "
            "lower bounds, idle power is an upper bound; measure again when the machine is idle"
        )
    if energy and model is None:
        why = gauges if isinstance(gauges, str) else "a sensor stopped responding"
        notes.append(f"the energy model could not be calibrated: {why}")
    return tuple(notes)


def _disagreements(sensors: Sequence[Sensor]) -> list[str]:
    """One note per GPU whose power sensor and energy counter disagree about its idle power."""
    idle = {row.name: row.idle_w.value for row in sensors if row.idle_w.value}
    notes = []
    for name, power in idle.items():
        from_energy = idle.get(name.removesuffix(POWER) + ENERGY) if name.endswith(f":{POWER}") else None
        if from_energy and power and abs(from_energy / power - 1) > _DISAGREE:
            notes.append(f"{name} reports {power:.0f} W idle, but the energy counter gives {from_energy:.0f} W")
    return notes


def _suffices(report: MachineReport, *, energy: bool, quick: bool) -> bool:
    """Whether a cached report answers the request."""
    return _threads_agree(report) and (quick or not report.quick) and (report.energy is not None or not energy)


def _threads_agree(report: MachineReport) -> bool:
    """Whether torch, if already imported, uses the same number of threads as when the report was measured."""
    torch = sys.modules.get("torch")
    return torch is None or report.hardware.threads == torch.get_num_threads()


def _default() -> str:
    """`cuda` if torch can use a GPU, `cpu` otherwise; torch is imported only if NVML may have a GPU."""
    return str(_measuring_module().default_device()) if nvml.boards().may_exist else CPU


def _measuring_module() -> ModuleType:
    try:
        return import_module("assay.timing.peaks.measuring")
    except ImportError as error:
        raise ReadError(f"measuring the machine requires torch, which cannot be imported: {error}") from error
