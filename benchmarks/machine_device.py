"""Figures of a CUDA machine: update periods of sensors, peaks, energy of ops and of two models.

    python benchmarks/machine_device.py --json machine.json --text machine.txt

Takes less than ten minutes. Energy is that of the GPU, from NVML's counter, between its ticks.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import msgspec
import torch
from device_models import models

from assay import units
from assay.analysis.ceilings import as_device
from assay.analysis.energy import energy_model, estimate, work_of
from assay.api.calibrating import calibrate_energy_model, kernel_work
from assay.api.machine import measure_machine
from assay.api.options import RunOptions
from assay.api.profile.profiled import prepare
from assay.document.machine import MachineReport, Replay
from assay.machine.energy import CounterGroup, counters_of_device, idle, replay
from assay.machine.monitor import Monitor
from assay.machine.sensors.nvml import limit_w, throttles
from assay.sources.open import open_source
from assay.timing.peaks.bursts import timed_device
from assay.timing.peaks.operations import Operation, operations
from assay.views.text.machine import machine_report
from assay.views.text.report import as_text

WINDOW_S = 2.0


def main() -> None:
    """Measure everything and print it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", type=Path, help="write the figures to this file")
    options.add_argument("--text", type=Path, help="also write the printed text to this file")
    options.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    options.add_argument("--window", type=float, default=WINDOW_S, help="seconds per replay")
    given = options.parse_args()
    start = time.perf_counter()
    lines: list[str] = []

    def show(line: str = "") -> None:
        lines.append(line)
        print(line, flush=True)

    report = measure_machine(given.device, fresh=True, on_step=lambda line: print(f"… {line}", file=sys.stderr))
    show(as_text(machine_report(report)))
    found: dict[str, Any] = {"machine": msgspec.to_builtins(report)}
    sensors = counters_of_device(given.device, report.sensors)
    if isinstance(sensors, str):
        show(f"energy not measured: {sensors}")
    else:
        found |= energies(given.device, report, sensors, given.window, show)
    found["took_s"] = time.perf_counter() - start
    show(f"\ntotal time {units.seconds(found['took_s'])}")
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n")
    if given.text:
        given.text.write_text("\n".join(lines) + "\n")


def energies(
    device: str, report: MachineReport, sensors: CounterGroup, window_s: float, show: Callable[..., None]
) -> dict[str, Any]:
    """Energy of ops and models, and the calibration of the energy model."""
    where = timed_device(device)
    where.normal(1)  # creates a context, so that the idle power is that of a GPU in use
    quiet = idle(sensors, 2.0)
    sensors = CounterGroup(sensors.probes, sensors.period_s, quiet)
    show(f"counter: {sensors.name}, a tick every {units.seconds(sensors.period_s)}")
    show(f"idle power with a context: {quiet.value and round(quiet.value, 1)} W, {quiet.how}")
    with torch.inference_mode(), Monitor() as monitor:
        rows = repeated(list(operations(where)), where, sensors, window_s, show)
    monitored = system(monitor, show)
    calibration = calibrate_energy_model(report, sensors, limit_w(""))
    show(f"\nenergy model: {calibration}")
    tested = [model_energy(*each, report, sensors, calibration, window_s, show) for each in models(device)]
    return {
        "period_s": sensors.period_s,
        "idle_w": msgspec.to_builtins(quiet),
        "operations": rows,
        "model": msgspec.to_builtins(calibration),
        "models": tested,
        "system": monitored,
    }


def repeated(
    every: list[Operation], where: Any, sensors: CounterGroup, window_s: float, show: Callable[..., None]
) -> list[dict[str, Any]]:
    """Measure each op twice, the second time in the opposite order."""
    runs: dict[str, list[Replay]] = {operation.name: [] for operation in every}
    for order in (every, every[::-1]):
        for operation in order:
            run = partial(operation.module, *operation.inputs)
            once = replay(run, sensors, synchronize=where.synchronize, window_s=window_s, repeats=1)
            runs[operation.name].append(once)
    show(f"\n{'op':<30}{'first':>12}{'second':>12}{'difference':>11}{'power':>9}{'time':>12}")
    rows = []
    for operation in every:
        first, second = runs[operation.name]
        row = compared(operation, first, second)
        rows.append(row)
        if row["differ"] is None:
            show(f"{operation.name:<30} {first.energy_j.how}")
            continue
        energy, seconds = row["energy_j"], row["time_s"]
        show(
            f"{operation.name:<30}{1e3 * first.energy_j.value:>9.2f} mJ{1e3 * second.energy_j.value:>9.2f} mJ"
            f"{100 * row['differ']:>9.2f} %{energy / seconds:>7.0f} W{units.seconds(seconds):>12}"
        )
    differ = sorted(row["differ"] for row in rows if row["differ"] is not None)
    show(f"two repeats differ by {100 * differ[len(differ) // 2]:.2f} % (median), {100 * differ[-1]:.2f} % (worst)")
    return rows


def compared(operation: Operation, first: Replay, second: Replay) -> dict[str, Any]:
    """One row: both energies and their relative difference."""
    values = [each.energy_j.value for each in (first, second)]
    row: dict[str, Any] = {
        "name": operation.name,
        "first": msgspec.to_builtins(first),
        "second": msgspec.to_builtins(second),
        "differ": None,
    }
    if None in values:
        return row
    mean = sum(values) / 2
    seconds = (first.time_s.value + second.time_s.value) / 2
    return row | {"differ": abs(values[0] - values[1]) / mean, "energy_j": mean, "time_s": seconds}


def model_energy(
    name: str,
    model: torch.nn.Module,
    inputs: tuple[Any, ...],
    report: MachineReport,
    sensors: CounterGroup,
    calibration: Any,
    window_s: float,
    show: Callable[..., None],
) -> dict[str, Any]:
    """Energy of a whole model: measured, modelled with this run's coefficients, and with the published ones."""
    where = timed_device(report.hardware.device)
    profiled = prepare(open_source(model), (inputs, {}), RunOptions("real"))
    document = profiled.observe(mode="real")
    work, missing = work_of(document, as_device(report))
    with torch.inference_mode():
        measured = replay(
            lambda: model(*inputs), sensors, synchronize=where.synchronize, window_s=window_s, repeats=3
        )
    seconds, joules = measured.time_s.value, measured.energy_j.value
    show(f"\n{name}: {work.flops} FLOPs, {units.size(work.bytes)}, not counted: {missing or 'nothing'}")
    show(f"  measured {joules} J in {units.seconds(seconds)}: {measured.power_w.value} W, {measured.energy_j.how}")
    row = {"name": name, "flops": work.flops, "bytes": work.bytes, "measured": msgspec.to_builtins(measured)}
    busy_s, kernels = kernel_work(profiled, document)
    candidates = {"calibrated": calibration, "published": energy_model(report.hardware.name)}
    for kind, coefficients in candidates.items():
        if coefficients is None or joules is None:
            continue
        modelled = estimate(work, seconds, coefficients, busy_s=busy_s, kernels=kernels)
        off = None if modelled.value is None else modelled.value / joules - 1
        row[kind] = {"figure": msgspec.to_builtins(modelled), "off": off}
        show(f"  modelled ({kind}) {modelled.value} J, off by {'–' if off is None else f'{100 * off:+.1f} %'}")
    return row


def system(monitor: Monitor, show: Callable[..., None]) -> dict[str, Any]:
    """Figures that the monitor recorded meanwhile."""
    recording = monitor.recording
    show(f"\nmonitor: {len(recording.times_s)} samples, overhead {units.share(recording.overhead.value, 1)}")
    rows = {}
    for series in recording.series:
        rows[series.name] = {"mean": series.mean, "peak": series.peak, "unit": series.unit}
        if series.name.startswith("gpu") or series.name in ("cpu.utilisation", "process.rss"):
            show(
                f"  {series.name:<22} mean {units.ratio(series.mean)}, peak {units.ratio(series.peak)} {series.unit}"
            )
        if series.name.endswith("throttle"):
            reasons = {reason for bits in series.known for reason in throttles(int(bits))}
            rows[series.name]["reasons"] = sorted(reasons)
            show(f"  clocks throttled by: {', '.join(sorted(reasons)) or 'nothing'}")
    for problem in recording.problems:
        show(f"  {problem}")
    return {"series": rows, "overhead": msgspec.to_builtins(recording.overhead), "problems": recording.problems}


if __name__ == "__main__":
    main()
