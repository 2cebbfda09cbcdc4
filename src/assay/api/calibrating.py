"""The energy model of this machine: ops of many kinds are counted, timed and replayed, then fitted to."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from assay import host
from assay.analysis.ceilings import as_device
from assay.analysis.devices import Device
from assay.analysis.energy import EnergyWork, work_of
from assay.analysis.energy_fit import EnergySample, calibrate
from assay.api.options import OnStep, RunOptions
from assay.document.machine import EnergyModel, MachineReport
from assay.machine.energy import CounterGroup, replay

if TYPE_CHECKING:
    from assay.api.profile.profiled import ProfiledModel
    from assay.document.document import Document
    from assay.timing.peaks.bursts import TimedDevice
    from assay.timing.peaks.operations import Operation

WINDOW_S = 2.0
_TRACED = 2
"""Number of passes from whose traces kernel times are read."""


def calibrate_energy_model(
    report: MachineReport, sensors: CounterGroup, limit_w: float | None = None, on_step: OnStep | None = None
) -> EnergyModel | None:
    """The energy model of the device of `report`, which draws at most `limit_w`; None if a sensor failed."""
    from assay.timing.peaks.bursts import timed_device
    from assay.timing.peaks.operations import operations

    where, device, samples = timed_device(report.hardware.device), as_device(report), []
    for op in operations(where):
        if on_step is not None:
            on_step(f"energy of {op.name}")
        sample = _sample(op, where, device, sensors)
        if sample is None:
            return None
        samples.append(sample)
    source = f"calibration on this machine with {sensors.name}, {host.today()}"
    return calibrate(samples, report.hardware.name, source, sensors.idle_w.value, limit_w)


def kernel_work(profiled: ProfiledModel, document: Document) -> tuple[float | None, int | None]:
    """Seconds of one pass during which an accelerator runs kernels, and their number; None on a CPU."""
    from assay.api.profile.op_times import RecordedOps, kernels_of
    from assay.timing.bench import Budget
    from assay.timing.rounds import clock_recorded_ops

    inputs, budget = profiled.inputs, Budget(warmup=0, least=_TRACED, most=_TRACED)
    timed = clock_recorded_ops(profiled.opened.module, inputs.args, inputs.kwargs, profiled.setting(), budget)
    if not timed.kernels:
        return None, None
    ops = RecordedOps(timed)
    return ops.whole().ns / 1e9, kernels_of(ops.kinds(document.kinds))


def _sample(op: Operation, where: TimedDevice, device: Device, sensors: CounterGroup) -> EnergySample | None:
    """The work, the time and the energy of one op; None if the sensor failed."""
    import torch

    from assay.api.profile.profiled import prepare
    from assay.sources.open import open_source
    from assay.timing.settings import matmul_precision

    with torch.no_grad(), matmul_precision("high") if op.tf32 else nullcontext():
        profiled = prepare(open_source(op.module), (op.inputs, {}), RunOptions("real"))
        document = profiled.observe(mode="real")
        busy_s, kernels = kernel_work(profiled, document)
        result = replay(
            lambda: op.module(*op.inputs), sensors, synchronize=where.synchronize, window_s=WINDOW_S, repeats=1
        )
    if not result.energy_j.value or result.time_s.value is None:
        return None
    work, _ = work_of(document, device)
    if op.tf32:
        work = EnergyWork({"tf32" if name == "fp32" else name: each for name, each in work.flops.items()}, work.bytes)
    return EnergySample(op.name, work, result.time_s.value, result.energy_j.value, busy_s, kernels)
