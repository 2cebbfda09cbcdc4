"""The energy of a pass and of its ops without a sensor: modelled from work and time, ops scaled to the pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from assay.analysis.ceilings import as_device
from assay.analysis.energy import EnergyWork, estimate, model_of, work_of, work_of_kind
from assay.analysis.roofline import roofline_of
from assay.api.profile.energy_remainder import GAPS
from assay.api.profile.op_times import kernels_of
from assay.document.document import Document
from assay.document.machine import NOT_MEASURED, EnergyModel, MachineReport, unknown_figure
from assay.document.profile import EnergyPart, KindEnergy, KindTime, Profile
from assay.document.provenance import Figure, Modelled


class ModelledOps(NamedTuple):
    """The modelled energy of the kinds of op, and how it compares with that of the pass."""

    kinds: list[KindEnergy | None]
    closure: Figure = NOT_MEASURED
    scale: Figure = NOT_MEASURED
    remainder: Sequence[EnergyPart] = ()
    covered: float | None = None


def modelled_pass(document: Document, report: MachineReport, seconds: float | None = None) -> Figure:
    """The joules of one pass from the best available energy model of this machine.

    `seconds` is how long a pass took while its energy was measured, if it was: launching the kernels of an
    accelerator takes a different time later.
    """
    assert document.profile is not None
    model = model_of(report)
    if model is None:
        return unknown_figure(f"there is no energy model of {report.hardware.name}")
    work, _ = work_of(document, as_device(report))
    busy_s, kernels = _busy_s(document.profile), kernels_of(document.profile.kinds)
    on_cpu = document.profile.device == "cpu"
    conditions = document.profile.conditions
    if on_cpu and conditions is not None and conditions.withheld:
        return unknown_figure("machine busy: CPU time includes threads that wait for each other")
    elapsed = seconds if seconds is not None and not on_cpu else _working_s(document.profile, model)
    return estimate(work, elapsed, model, busy_s=busy_s, kernels=kernels)


def modelled_ops(document: Document, report: MachineReport, whole: Figure) -> ModelledOps:
    """The modelled energy of each kind of op, scaled so that ops and what is between them add up to `whole`.

    Kinds whose time or FLOPs are unknown have no energy; the rest add up to their share of the op time.
    """
    model, profile = model_of(report), document.profile
    assert profile is not None
    if model is None:
        return ModelledOps([])
    rows = _rows(document, report, model)
    known = {index: row for index, row in enumerate(rows) if row is not None and row.each.value is not None}
    total = sum((row.each.value or 0.0) * row.count for row in known.values())
    known_s = sum(_seconds(profile, each) for index, each in enumerate(profile.kinds) if each and index in known)
    op_s, gap_s = _op_s(profile), _gap_s(profile)
    gaps = estimate(EnergyWork(), gap_s, model, busy_s=0.0)
    if profile.device == "cpu" and whole.value is not None and profile.closure.value is not None:
        between = whole.value * max(1 - profile.closure.value, 0.0)
        gaps = Figure(between, Modelled("share of the pass that is Python between ops"))
    if not whole.value or not total or not op_s or gaps.value is None:
        return ModelledOps(rows)
    covered = known_s / op_s
    factor = covered * max(whole.value - gaps.value, 0.0) / total
    return ModelledOps(
        [row and replace(row, each=_scaled(row.each, factor)) for row in rows],
        closure=Figure(total / whole.value, Modelled("energy model, before op energies were scaled")),
        scale=Figure(factor, Modelled("makes op energies add up to the pass")),
        remainder=[EnergyPart(GAPS, gaps)] if gaps.value else [],
        covered=covered,
    )


def _rows(document: Document, report: MachineReport, model: EnergyModel) -> list[KindEnergy | None]:
    """The energy of each kind of op before scaling; None if its time or FLOPs are unknown."""
    assert document.profile is not None
    assert document.cost is not None
    threads = (document.profile.threads or 1) if model.per_core else 1
    rows: list[KindEnergy | None] = [None] * len(document.kinds)
    for row in roofline_of(document, as_device(report)).kinds:
        timed, cost = document.profile.kinds[row.kind], document.cost.kinds[row.kind]
        # A model per core counts time alone, so it needs no FLOPs.
        if timed is None or not timed.count or (cost.matrix_flops is None and not model.per_core):
            continue
        elapsed = threads * _seconds(document.profile, timed)
        spent = timed.processor_s if model.per_core and timed.processor_s is not None else elapsed
        kernels = None if timed.kernels is None else timed.kernels / timed.count
        each = estimate(work_of_kind(cost, row.precision), spent / timed.count, model, kernels=kernels)
        rows[row.kind] = KindEnergy(each, count=timed.count)
    return rows


def _scaled(figure: Figure, factor: float) -> Figure:
    if figure.value is None or not isinstance(figure.how, Modelled):
        return figure
    assumptions = (*figure.how.assumptions, f"multiplied by {factor:.3g} so that ops add up to the pass")
    return Figure(figure.value * factor, replace(figure.how, assumptions=assumptions))


def _working_s(profile: Profile, model: EnergyModel) -> float | None:
    """The seconds that a model counts: of the pass, but on a CPU no longer than its processor time.

    The rest of the time, a CPU worked for other processes.
    """
    whole, processor = profile.whole.value, profile.processor.value
    if profile.device != "cpu" or (processor is None and not model.per_core):
        return whole
    return processor if model.per_core or whole is None or processor is None else min(whole, processor)


def _busy_s(profile: Profile) -> float | None:
    """Seconds during which an accelerator ran kernels; None for a CPU, which is always busy."""
    return None if profile.device == "cpu" else _op_s(profile)


def _gap_s(profile: Profile) -> float:
    """Seconds of the pass during which an accelerator waits for the host; 0 for a CPU, which is the host."""
    busy = _busy_s(profile)
    return 0.0 if busy is None else max((profile.whole.value or 0.0) - busy, 0.0)


def _op_s(profile: Profile) -> float:
    return sum(_seconds(profile, each) for each in profile.kinds if each is not None)


def _seconds(profile: Profile, timed: KindTime) -> float:
    """Seconds of all executions of a kind; if times were withheld, its share of the CPU time."""
    return timed.total_s if timed.total_s is not None else (timed.share or 0.0) * (profile.processor.value or 0.0)
