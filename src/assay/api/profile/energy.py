"""The energy of a pass and of its ops: measured by replaying them with a sensor, or modelled without one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from msgspec.structs import replace

from assay.analysis.carbon import carbon_g, find_grid, price
from assay.analysis.energy import flops_per_joule
from assay.api.options import OnStep
from assay.api.profile.energy_remainder import UNEXPLAINED, closure, remainder
from assay.api.profile.modelled_energy import modelled_ops, modelled_pass
from assay.api.profile.op_replay import TimeLimit, kinds_to_replay, replayed_kinds, schedule
from assay.api.profile.options import EnergyOptions
from assay.api.profile.profiled import ProfiledModel
from assay.document.document import Document
from assay.document.machine import (
    NOT_MEASURED,
    MachineReport,
    MonitorRecording,
    measured_figure,
    unknown_figure,
)
from assay.document.profile import EnergyProfile
from assay.document.provenance import Figure, Modelled, Unknown
from assay.machine.energy import CounterGroup, counters_of_device, replay
from assay.machine.sensors.nvml import NvmlBoard, boards
from assay.messages import plural

_NO_SENSOR = unknown_figure("no sensor was read")
"""A figure that only a sensor gives; the profile's `why` has the reason."""
_PASS_SHARE = 0.5
"""The share of the time limit for the pass itself if ops are replayed too."""
_UNEXPLAINED = 0.1
"""If a larger share of the energy of the pass is unexplained, the energies of ops are only relative."""


def energy(
    profiled: ProfiledModel,
    document: Document,
    run: Callable[[], object],
    wait: Callable[[], None],
    report: MachineReport,
    options: EnergyOptions,
    on_step: OnStep,
) -> EnergyProfile:
    """The energy of one `run` of the document's pass, and of its ops.

    It is modelled if the device has no sensor, or if the sensor stopped responding.
    """
    assert document.profile is not None
    board = _board(document.profile.device)
    sensors = counters_of_device(report.hardware.device, report.sensors, board.uuid if board is not None else "")
    why = sensors
    profile = None
    if isinstance(sensors, CounterGroup):
        profile = _measured(profiled, document, run, wait, sensors, options, on_step)
        why = _why(profile.whole)
    modelled = modelled_pass(document, report, profile.time.value if profile is not None else None)
    if profile is None or profile.whole.value is None:
        ops = modelled_ops(document, report, modelled)
        profile = EnergyProfile(
            why=str(why),
            whole=modelled,
            above_idle=_NO_SENSOR,
            idle_w=_idle_power(sensors, report),
            average_w=_power(modelled, document.profile.whole),
            kinds=ops.kinds,
            closure=ops.closure,
            scale=ops.scale,
            remainder=list(ops.remainder),
            covered=ops.covered,
        )
    profile = replace(profile, modelled=modelled, peak_w=_peak_power(document.profile.system, board))
    return _with_efficiency_and_costs(profile, document, options)


def notes(document: Document, profile: EnergyProfile) -> list[str]:
    """What a reader of the energy must know, one line each: throttling, ops not replayed, unexplained energy."""
    assert document.profile is not None
    lines = []
    if profile.thermal.throttles:
        reasons = ", ".join(profile.thermal.throttles)
        lines.append(f"throttled: {reasons}; energy and time are those of a throttled device")
    throttled = [row for row in profile.kinds if row is not None and row.throttles]
    if throttled:
        reasons = ", ".join(dict.fromkeys(reason for row in throttled for reason in row.throttles))
        lines.append(f"throttled while replaying {plural(len(throttled), 'kind')} of op: {reasons}")
    above = kinds_to_replay(document.profile.kinds) if profile.sensor and profile.kinds else []
    left_out = [index for index in above if profile.kinds[index] is None]
    if left_out:
        count = f"{len(left_out)} of {plural(len(above), 'kind')} of op above 1 % of op time"
        lines.append(f"not replayed: {count}; their energy is modelled")
    rest = next((part.energy.value for part in profile.remainder if part.name == UNEXPLAINED), None)
    if rest and profile.whole.value and abs(rest) > _UNEXPLAINED * profile.whole.value:
        share = f"{100 * rest / profile.whole.value:.0f} %"
        lines.append(f"{share} of the energy of the pass is unexplained: compare ops only with each other")
    return lines


def _idle_power(sensors: CounterGroup | str, report: MachineReport) -> Figure:
    """The idle power, from the report if there is no sensor now; unknown if the report has none either."""
    if isinstance(sensors, CounterGroup):
        return sensors.idle_w
    return report.idle_w if report.idle_w.value is not None else _NO_SENSOR


def _why(figure: Figure) -> str:
    """The reason why a figure is unknown; empty if it is known."""
    return figure.how.why if isinstance(figure.how, Unknown) else ""


def _board(device: str) -> NvmlBoard | None:
    """The NVML board of a torch device such as `cuda:1`; None for the CPU, or if NVML does not list the GPU."""
    import torch

    if not device.startswith("cuda"):
        return None
    uuid = str(torch.cuda.get_device_properties(device).uuid)
    return next((board for board in boards().boards if uuid in board.uuid), None)


def _measured(
    profiled: ProfiledModel,
    document: Document,
    run: Callable[[], object],
    wait: Callable[[], None],
    sensors: CounterGroup,
    options: EnergyOptions,
    on_step: OnStep,
) -> EnergyProfile:
    """The measured energy; unknown if the sensors stop responding."""
    on_step("energy of the pass")
    limit = TimeLimit(options.seconds)
    pass_s = limit.left_s() * (_PASS_SHARE if options.by_op else 1.0)
    twice = dataclasses.replace(options, repeats=max(options.repeats, 2))
    plan = schedule(1, pass_s, sensors.period_s, twice)
    whole = replay(run, sensors, synchronize=wait, window_s=plan.window_s, repeats=plan.repeats)
    by_op = options.by_op and whole.energy_j.value is not None
    kinds = replayed_kinds(profiled, document, wait, sensors, options, limit, on_step) if by_op else []
    ratio, covered = closure(document, kinds, whole.energy_j)
    return EnergyProfile(
        sensor=sensors.name,
        whole=whole.energy_j,
        above_idle=whole.above_idle_j,
        time=whole.time_s,
        idle_w=sensors.idle_w,
        average_w=whole.power_w,
        kinds=kinds,
        closure=ratio,
        remainder=remainder(document, kinds, whole, sensors.idle_w),
        thermal=whole.thermal,
        covered=covered,
    )


def _power(joules: Figure, seconds: Figure) -> Figure:
    """The average power in watts of a modelled energy over a time."""
    if joules.value is None or not seconds.value or not isinstance(joules.how, Modelled):
        return unknown_figure("the energy or the time is unknown")
    return Figure(joules.value / seconds.value, replace(joules.how, by=f"{joules.how.by}, divided by time"))


def _with_efficiency_and_costs(profile: EnergyProfile, document: Document, options: EnergyOptions) -> EnergyProfile:
    """The profile with FLOPs per joule, and carbon footprint and price if a grid or a price was given."""
    flops = document.cost.forward.flops if document.cost is not None else None
    carbon = (
        carbon_g(profile.whole, find_grid(options.grid), options.pue)
        if options.grid
        else unknown_figure("no grid was given")
    )
    amount = (
        price(profile.whole, options.price_kwh, pue=options.pue)
        if options.price_kwh is not None
        else unknown_figure("no price was given")
    )
    return replace(profile, flops_per_joule=flops_per_joule(flops, profile.whole), carbon_g=carbon, price=amount)


def _peak_power(recording: MonitorRecording | None, board: NvmlBoard | None) -> Figure:
    """The highest power that the GPU drew during the monitored passes."""
    if recording is None:
        return NOT_MEASURED
    series = recording.named(f"gpu.{board.index}.power") if board is not None else None
    if series is None or series.peak is None:
        return unknown_figure("no sensor reports the power of this device during passes")
    return measured_figure(series.peak, "samples of the GPU's power", repeats=len(series.known))
