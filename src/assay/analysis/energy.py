"""Energy where there is no sensor: so much a FLOP, so much a byte, so much a second, always with its error.

Coefficients are best calibrated on the machine itself (`energy_fit`). Without that there are those of the same kind
of device, then a rule from its vendor's power and peaks, then a wide guess from the cores of a processor.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct

from assay.analysis.cost import cost_of
from assay.analysis.devices import Device
from assay.analysis.devices import find as find_device
from assay.analysis.roofline import bound
from assay.document.cost import KindCost
from assay.document.document import Document
from assay.document.machine import EnergyModel, MachineReport
from assay.document.provenance import Figure, Measured, Modelled, Unknown
from assay.errors import UsageError

STATIC_SHARE = 0.2
"""The part of a board's rated power that it draws however little it works; 144 of 700 W on an H200."""
RULE_ERROR = 1.0
"""Of coefficients from rated power: within a factor of two either way."""
CORE_W = 6.0
CORE_ERROR = 1.0

FALLBACKS = {
    "fp16": (("bf16", 1.0),),
    "bf16": (("fp16", 1.0),),
    "tf32": (("bf16", 2.0), ("fp16", 2.0)),
    "fp8": (("bf16", 0.5), ("fp16", 0.5)),
    "int8": (("fp8", 1.0), ("bf16", 0.5), ("fp16", 0.5)),
    "fp64": (("fp32", 1.0),),
}
"""Whose coefficient stands in where one is missing, and how many times: as the peaks of boards go. It is assumed."""


POINTWISE = "pointwise"
"""Stands among the precisions for work outside the matrix units; its bytes pay for it where it has no coefficient."""


class EnergyWork(Struct, frozen=True):
    """What something does: FLOPs by precision (pointwise ones apart), and bytes moved."""

    flops: dict[str, float] = {}
    bytes: float = 0.0


def work_of(document: Document, device: Device) -> tuple[EnergyWork, tuple[str, ...]]:
    """The work of one forward pass as `device` would do it, and the names of operations it leaves out."""
    roofline = bound(document, device)
    costs = document.cost.kinds if document.cost is not None else [cost_of(kind) for kind in document.kinds]
    flops: dict[str, float] = {}
    moved = 0.0
    for row in roofline.kinds:
        each = work_of_kind(costs[row.kind], row.precision)
        for precision, amount in each.flops.items():
            flops[precision] = flops.get(precision, 0.0) + amount * row.count
        moved += each.bytes * row.count
    return EnergyWork(flops, moved), roofline.coverage.unknown


def work_of_kind(cost: KindCost, precision: str | None) -> EnergyWork:
    """The work of one execution whose matrix work is done in `precision`."""
    needed = cost.matrix_flops if cost.needed_flops is None else cost.needed_flops
    flops: dict[str, float] = {}
    if needed and precision is not None:
        flops[precision] = needed
    if cost.pointwise_flops:
        flops[POINTWISE] = cost.pointwise_flops
    return EnergyWork(flops, cost.bytes)


def estimate(work: EnergyWork, seconds: float | None, model: EnergyModel, *, busy_s: float | None = None) -> Figure:
    """The joules of `work` that takes so long and keeps a device busy for a part of it; unknown where a part is."""
    if seconds is None and model.static_w:
        return Figure(None, Unknown("the time it takes is unknown"))
    passed = seconds or 0.0
    busy = passed if busy_s is None or model.idle_w is None else min(busy_s, passed)
    joules = model.j_per_byte * work.bytes + model.static_w * busy + (model.idle_w or 0.0) * (passed - busy)
    assumptions = list(model.assumptions)
    for precision, flops in work.flops.items():
        if not model.j_per_flop:  # a model of time alone
            break
        taken = _coefficient(model, precision)
        if taken is None and precision == POINTWISE:
            continue  # its bytes pay for it
        if taken is None:
            return Figure(None, Unknown(f"the energy of {precision} on {model.device} is unknown"))
        name, times = taken
        if name != precision:
            assumptions.append(f"{precision} takes {times:g} times as much a FLOP as {name}")
        joules += times * model.j_per_flop[name] * flops
    return Figure(
        joules, Modelled(f"energy model of {model.device}: {model.source}", tuple(assumptions), model.error)
    )


def model_of(report: MachineReport) -> EnergyModel | None:
    """The best coefficients for a measured machine: its own, those of its kind, or a guess from its cores."""
    hardware = report.hardware
    known = report.energy or energy_model(hardware.name)
    if known is not None or hardware.device != "cpu" or hardware.cores is None:
        return known
    return from_cores(hardware.name, min(hardware.threads or hardware.cores, hardware.cores))


def energy_model(name: str) -> EnergyModel | None:
    """The coefficients of the device called `name`: published ones, else from its rated power; None where neither."""
    try:
        device = find_device(name)
    except UsageError:
        return None
    return published().get(device.name) or from_rated_power(device)


@cache
def published() -> dict[str, EnergyModel]:
    """Coefficients that were calibrated before, by the device's name."""
    data = files("assay.analysis").joinpath("energy.json").read_bytes()
    return {model.device: model for model in msgspec.json.decode(data, type=list[EnergyModel])}


def from_rated_power(device: Device) -> EnergyModel | None:
    """Coefficients such that each ceiling alone draws the rated power; None where that is unknown."""
    if device.tdp_w is None or device.bandwidth is None or not device.tflops:
        return None
    moving = (1 - STATIC_SHARE) * device.tdp_w
    return EnergyModel(
        device=device.name,
        j_per_flop={precision: moving / (tera * 1e12) for precision, tera in device.tflops.items()},
        j_per_byte=moving / device.bandwidth,
        static_w=STATIC_SHARE * device.tdp_w,
        error=RULE_ERROR,
        source=f"rated power, peaks and bandwidth of {device.source}",
        assumptions=("arithmetic or memory at its peak draws the rated power; good to a factor of two",),
    )


def from_cores(name: str, cores: int) -> EnergyModel:
    """The widest guess: so many cores at work, at the rated power a core of current processors."""
    return EnergyModel(
        device=name,
        static_w=CORE_W * cores,
        error=CORE_ERROR,
        source=f"{CORE_W:g} W a core",
        assumptions=(
            "rated power a core: AMD EPYC 9654 3.8 W, Intel Xeon Platinum 8480+ 6.3 W, AMD Ryzen 9 7950X 10.6 W",
            f"{cores} cores at work all the time, nothing else of the machine; good to a factor of two",
        ),
    )


def flops_per_joule(flops: float | None, energy_j: Figure) -> Figure:
    """Counted FLOPs over that energy, as sure as the energy is."""
    if flops is None or not energy_j.value:
        why = energy_j.how.why if isinstance(energy_j.how, Unknown) else "the FLOPs or the energy are unknown"
        return Figure(None, Unknown(why))
    how = energy_j.how
    value = flops / energy_j.value
    if isinstance(how, Measured):
        spread = None if how.spread is None else how.spread / energy_j.value * value
        return Figure(value, Measured(f"counted FLOPs over {how.by}", how.repeats, spread))
    assert isinstance(how, Modelled)
    return Figure(value, Modelled(f"counted FLOPs over {how.by}", how.assumptions, how.error))


def _coefficient(model: EnergyModel, precision: str) -> tuple[str, float] | None:
    """The precision whose coefficient is used, and how many times."""
    wanted = ((precision, 1.0), *FALLBACKS.get(precision, ()))
    return next(((name, times) for name, times in wanted if name in model.j_per_flop), None)
