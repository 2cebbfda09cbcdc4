"""The energy of a pass and of its ops: measured by replaying them with a sensor, or modelled without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from assay.analysis.carbon import carbon_g, find_grid, price
from assay.analysis.ceilings import as_device
from assay.analysis.devices import Device
from assay.analysis.energy import estimate, flops_per_joule, model_of, work_of, work_of_kind
from assay.analysis.roofline import roofline_of
from assay.api.options import OnStep
from assay.api.profile.options import EnergyOptions
from assay.api.profile.profiled import ProfiledModel
from assay.document.document import Document
from assay.document.machine import (
    NOT_MEASURED,
    EnergyModel,
    MachineReport,
    MonitorRecording,
    measured_figure,
    unknown_figure,
)
from assay.document.profile import EnergyProfile, KindEnergy, KindTime
from assay.document.provenance import Figure, Modelled, Unknown
from assay.machine.energy import CounterGroup, counters_of_device, replay
from assay.machine.sensors.nvml import NvmlBoard, boards

COVER = 0.95
"""Kinds of op are replayed, slowest first, until they cover this share of the total op time."""
MOST = 12
"""Maximum number of kinds to replay, because each takes seconds."""
_NO_SENSOR = unknown_figure("no sensor was read")
"""A figure that only a sensor gives; the profile's `why` has the reason."""


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
    modelled = _modelled(document, report)
    if profile is None or profile.whole.value is None:
        device, model = as_device(report), model_of(report)
        profile = EnergyProfile(
            why=str(why),
            whole=modelled,
            above_idle=_NO_SENSOR,
            idle_w=_idle_power(sensors, report),
            average_w=_power(modelled, document.profile.whole),
            kinds=_modelled_kinds(document, device, model) if model is not None else [],
        )
    profile = replace(profile, modelled=modelled, peak_w=_peak_power(document.profile.system, board))
    return _with_efficiency_and_costs(profile, document, options)


def _idle_power(sensors: CounterGroup | str, report: MachineReport) -> Figure:
    """The idle power, from the report if there is no sensor now; unknown if the report has none either."""
    if isinstance(sensors, CounterGroup):
        return sensors.idle_w
    return report.idle_w if report.idle_w.value is not None else _NO_SENSOR


def _modelled(document: Document, report: MachineReport) -> Figure:
    """The joules of one pass from the best available energy model of this machine."""
    assert document.profile is not None
    model = model_of(report)
    if model is None:
        return unknown_figure(f"there is no energy model of {report.hardware.name}")
    work, _ = work_of(document, as_device(report))
    return estimate(work, document.profile.whole.value, model, busy_s=_busy_s(document))


def _why(figure: Figure) -> str:
    """The reason why a figure is unknown; empty if it is known."""
    return figure.how.why if isinstance(figure.how, Unknown) else ""


def _busy_s(document: Document) -> float | None:
    """Seconds during which an accelerator ran kernels; None for a CPU, which is always busy."""
    assert document.profile is not None
    if document.profile.device == "cpu":
        return None
    return sum(time.total_s or 0.0 for time in document.profile.kinds if time is not None)


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
    whole = replay(run, sensors, synchronize=wait, window_s=options.window_s, repeats=max(options.repeats, 2))
    by_op = options.by_op and whole.energy_j.value is not None
    kinds = _replayed_kinds(profiled, document, wait, sensors, options, on_step) if by_op else []
    closure, covered = _closure(document, kinds, whole.energy_j)
    return EnergyProfile(
        sensor=sensors.name,
        whole=whole.energy_j,
        above_idle=whole.above_idle_j,
        idle_w=sensors.idle_w,
        average_w=whole.power_w,
        kinds=kinds,
        closure=closure,
        covered=covered,
    )


def _replayed_kinds(
    profiled: ProfiledModel,
    document: Document,
    wait: Callable[[], None],
    sensors: CounterGroup,
    options: EnergyOptions,
    on_step: OnStep,
) -> list[KindEnergy | None]:
    """The measured energy of the slowest kinds, each replayed on its recorded inputs; None for the rest."""
    import torch

    assert document.profile is not None
    times = document.profile.kinds
    rows: list[KindEnergy | None] = [None] * len(times)
    with torch.no_grad():
        for index, run in _replays(profiled, document, _slowest(times)).items():
            on_step(f"energy of {document.kinds[index].name}")
            result = replay(run, sensors, synchronize=wait, window_s=options.window_s, repeats=options.repeats)
            time = times[index]
            rows[index] = KindEnergy(result.energy_j, result.above_idle_j, time.count if time is not None else 0)
    return rows


def _slowest(times: Sequence[KindTime | None]) -> list[int]:
    """The indices of the kinds that take the most time, up to `COVER` of the total time and `MOST` kinds."""
    timed = [(time.total_s or 0.0, index) for index, time in enumerate(times) if time is not None]
    whole = sum(total for total, _ in timed)
    slowest: list[int] = []
    covered = 0.0
    for total, index in sorted(timed, reverse=True)[:MOST]:
        if covered >= COVER * whole:
            break
        slowest.append(index)
        covered += total
    return slowest


def _replays(profiled: ProfiledModel, document: Document, kinds: Sequence[int]) -> Mapping[int, Callable[[], object]]:
    """A function per kind that runs one op of that kind again, on its recorded inputs."""
    from assay.recorder import inventory
    from assay.recorder.watch import record_pass
    from assay.timing.op_clock import BODIES, OpKeeper

    counted = [op for op in document.ops if document.kinds[op.kind].target not in BODIES]
    first: dict[int, int] = {}
    for number, op in enumerate(counted):
        if op.kind in kinds:
            first.setdefault(op.kind, number)
    keeper = OpKeeper(first.values())
    model, inputs = profiled.opened.module, profiled.inputs
    record_pass(model, inventory.members(model), inputs.args, inputs.kwargs, profiled.setting(), keeper.call)
    return {kind: keeper.kept[number] for kind, number in first.items() if number in keeper.kept}


def _closure(document: Document, kinds: Sequence[KindEnergy | None], whole: Figure) -> tuple[Figure, float | None]:
    """The summed energy of the kinds divided by that of the pass, and the share of op time these kinds cover."""
    assert document.profile is not None
    times = document.profile.kinds
    pairs = [(row, times[index]) for index, row in enumerate(kinds) if row is not None and row.each.value is not None]
    total = sum(time.total_s or 0.0 for time in times if time is not None)
    if not pairs or not whole.value or not total:
        return unknown_figure("the energy of ops was not measured"), None
    joules = sum((row.each.value or 0.0) * row.count for row, _ in pairs)
    share = sum(time.total_s or 0.0 for _, time in pairs if time is not None) / total
    return measured_figure(joules / whole.value, "replayed ops divided by the replayed pass"), share


def _modelled_kinds(document: Document, device: Device, model: EnergyModel) -> list[KindEnergy | None]:
    """The modelled energy of each kind of op; None if its time or FLOPs are unknown."""
    assert document.profile is not None
    assert document.cost is not None
    rows: list[KindEnergy | None] = [None] * len(document.kinds)
    for row in roofline_of(document, device).kinds:
        time = document.profile.kinds[row.kind]
        cost = document.cost.kinds[row.kind]
        if time is None or cost.matrix_flops is None:
            continue
        work = work_of_kind(cost, row.precision)
        rows[row.kind] = KindEnergy(estimate(work, time.time_s, model), count=time.count)
    return rows


def _power(joules: Figure, seconds: Figure) -> Figure:
    """The average power in watts of a modelled energy over a time."""
    if joules.value is None or not seconds.value or not isinstance(joules.how, Modelled):
        return unknown_figure("the energy or the time is unknown")
    how = joules.how
    return Figure(joules.value / seconds.value, Modelled(f"{how.by}, divided by time", how.assumptions, how.error))


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
