"""The energy of a pass and of its operations: replayed against a sensor, or modelled where there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from assay.analysis.carbon import carbon_g, find_grid, price
from assay.analysis.ceilings import as_device
from assay.analysis.devices import Device
from assay.analysis.energy import estimate, flops_per_joule, model_of, work_of, work_of_kind
from assay.analysis.roofline import bound
from assay.api.options import OnStep
from assay.api.profile.options import EnergyOptions
from assay.api.profile.profiled import ProfiledModel
from assay.document.document import Document
from assay.document.machine import NOT_MEASURED, EnergyModel, MachineReport, MonitorRecording, measured, unknown
from assay.document.profile import EnergyProfile, KindEnergy, KindTime
from assay.document.provenance import Figure, Modelled, Unknown
from assay.machine.energy import CounterGroup, of_device, replay
from assay.machine.sensors.nvml import NvmlBoard, boards

COVER = 0.95
"""Operations are replayed, the longest first, until this share of their time is covered."""
MOST = 12
"""And no more kinds than this, for each takes seconds."""


def energy(
    profiled: ProfiledModel,
    document: Document,
    run: Callable[[], object],
    wait: Callable[[], None],
    report: MachineReport,
    options: EnergyOptions,
    on_step: OnStep,
) -> EnergyProfile:
    """The energy of one `run` of the document's pass, and of its operations.

    It is modelled where no sensor covers the device, and where one stopped answering.
    """
    assert document.profile is not None
    board = _board(document.profile.device)
    sensors = of_device(report.hardware.device, report.sensors, board.uuid if board is not None else "")
    why = sensors
    found = None
    if isinstance(sensors, CounterGroup):
        found = _measured(profiled, document, run, wait, sensors, options, on_step)
        why = _why(found.whole)
    guess = _guess(document, report)
    if found is None or found.whole.value is None:
        device, model = as_device(report), model_of(report)
        found = EnergyProfile(
            why=str(why),
            whole=guess,
            above_idle=unknown("no sensor was read"),
            idle_w=sensors.idle_w if isinstance(sensors, CounterGroup) else report.idle_w,
            average_w=_power(guess, document.profile.whole),
            kinds=_modelled_kinds(document, device, model) if model is not None else [],
        )
    found = replace(found, modelled=guess, peak_w=_peak_power(document.profile.system, board))
    return _with_consequences(found, document, options)


def _guess(document: Document, report: MachineReport) -> Figure:
    """The joules of one pass by the best model there is of this machine."""
    assert document.profile is not None
    model = model_of(report)
    if model is None:
        return unknown(f"no energy model of {report.hardware.name} is known")
    work, _ = work_of(document, as_device(report))
    return estimate(work, document.profile.whole.value, model, busy_s=_busy_s(document))


def _why(figure: Figure) -> str:
    return figure.how.why if isinstance(figure.how, Unknown) else ""


def _busy_s(document: Document) -> float | None:
    """How long an accelerator's kernels ran; None for a processor, which is busy all the time."""
    assert document.profile is not None
    if document.profile.device == "cpu":
        return None
    return sum(time.total_s for time in document.profile.kinds if time is not None)


def _board(device: str) -> NvmlBoard | None:
    """The board that `cuda:1` means to torch; None for a processor, or where NVML does not show it."""
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
    """What the sensors say; unknown where they stop answering."""
    on_step("energy of the pass")
    whole = replay(run, sensors, synchronize=wait, window_s=options.window_s, repeats=max(options.repeats, 2))
    wanted = options.by_op and whole.energy_j.value is not None
    kinds = _replayed_kinds(profiled, document, wait, sensors, options, on_step) if wanted else []
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
    """The kinds that take most of the time, each run alone on the inputs it had."""
    import torch

    assert document.profile is not None
    times = document.profile.kinds
    rows: list[KindEnergy | None] = [None] * len(times)
    with torch.no_grad():
        for index, run in _kept(profiled, document, _longest(times)).items():
            on_step(f"energy of {document.kinds[index].name}")
            found = replay(run, sensors, synchronize=wait, window_s=options.window_s, repeats=options.repeats)
            time = times[index]
            rows[index] = KindEnergy(found.energy_j, found.above_idle_j, time.count if time is not None else 0)
    return rows


def _longest(times: Sequence[KindTime | None]) -> list[int]:
    known = [(time.total_s, index) for index, time in enumerate(times) if time is not None]
    whole = sum(total for total, _ in known)
    chosen: list[int] = []
    covered = 0.0
    for total, index in sorted(known, reverse=True)[:MOST]:
        if covered >= COVER * whole:
            break
        chosen.append(index)
        covered += total
    return chosen


def _kept(profiled: ProfiledModel, document: Document, kinds: Sequence[int]) -> Mapping[int, Callable[[], object]]:
    """What runs one execution of each kind again."""
    from assay.recorder import inventory
    from assay.recorder.watch import watch
    from assay.timing.op_clock import BODIES, OpKeeper

    counted = [op for op in document.ops if document.kinds[op.kind].target not in BODIES]
    first: dict[int, int] = {}
    for number, op in enumerate(counted):
        if op.kind in kinds:
            first.setdefault(op.kind, number)
    keeper = OpKeeper(first.values())
    model, inputs = profiled.opened.module, profiled.inputs
    watch(model, inventory.members(model), inputs.args, inputs.kwargs, profiled.setting(), keeper.call)
    return {kind: keeper.kept[number] for kind, number in first.items() if number in keeper.kept}


def _closure(document: Document, kinds: Sequence[KindEnergy | None], whole: Figure) -> tuple[Figure, float | None]:
    """The kinds' energies over the pass's, and the share of operation time they stand for."""
    assert document.profile is not None
    times = document.profile.kinds
    known = [(row, times[index]) for index, row in enumerate(kinds) if row is not None and row.each.value is not None]
    total = sum(time.total_s for time in times if time is not None)
    if not known or not whole.value or not total:
        return unknown("no operation's energy was measured"), None
    joules = sum((row.each.value or 0.0) * row.count for row, _ in known)
    share = sum(time.total_s for _, time in known if time is not None) / total
    return measured(joules / whole.value, "replayed operations over the replayed pass"), share


def _modelled_kinds(document: Document, device: Device, model: EnergyModel) -> list[KindEnergy | None]:
    assert document.profile is not None
    assert document.cost is not None
    rows: list[KindEnergy | None] = [None] * len(document.kinds)
    for row in bound(document, device).kinds:
        time = document.profile.kinds[row.kind]
        cost = document.cost.kinds[row.kind]
        if time is None or cost.matrix_flops is None:
            continue
        work = work_of_kind(cost, row.precision)
        rows[row.kind] = KindEnergy(estimate(work, time.time_s, model), count=time.count)
    return rows


def _power(joules: Figure, seconds: Figure) -> Figure:
    if joules.value is None or not seconds.value or not isinstance(joules.how, Modelled):
        return unknown("the energy or the time is unknown")
    how = joules.how
    return Figure(joules.value / seconds.value, Modelled(f"{how.by}, over the time", how.assumptions, how.error))


def _with_consequences(found: EnergyProfile, document: Document, options: EnergyOptions) -> EnergyProfile:
    """FLOPs a joule, carbon dioxide and money, where a grid or a price was named."""
    flops = document.cost.forward.flops if document.cost is not None else None
    carbon = (
        carbon_g(found.whole, find_grid(options.grid), options.pue) if options.grid else unknown("no grid was named")
    )
    paid = (
        price(found.whole, options.price_kwh, pue=options.pue)
        if options.price_kwh is not None
        else unknown("no price given")
    )
    return replace(found, flops_per_joule=flops_per_joule(flops, found.whole), carbon_g=carbon, price=paid)


def _peak_power(recording: MonitorRecording | None, board: NvmlBoard | None) -> Figure:
    """The most that the device's board drew while passes ran."""
    if recording is None:
        return NOT_MEASURED
    series = recording.named(f"gpu.{board.index}.power") if board is not None else None
    if series is None or series.peak is None:
        return unknown("no sensor tells the power of this device while it runs")
    return measured(series.peak, "the board's power, sampled", repeats=len(series.known))
