"""Energy estimates without a sensor: joules per FLOP, per byte and per second, always with an interval or error.

Coefficients calibrated on the machine itself are best (`energy_fit`). Otherwise they are those published for the same
kind of device, derived from the vendor's rated power and peaks, or a rough estimate of the power of a busy CPU core.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from assay.analysis.cost import cost_of
from assay.analysis.devices import Device
from assay.analysis.devices import find_device as find_device
from assay.analysis.roofline import roofline_of
from assay.document.cost import KindCost
from assay.document.document import Document
from assay.document.machine import EnergyModel, MachineReport
from assay.document.provenance import Figure, Measured, Modelled, Unknown
from assay.errors import UsageError

STATIC_SHARE = 0.2
"""Share of a board's rated power that it draws regardless of load; 144 of 700 W on an H200."""
RULE_ERROR = 1.0
"""Relative error of coefficients from rated power: within a factor of two either way."""
CORE_W = 6.0
"""Rated power per core of current processors."""
CORE_ERROR = 1.0

FALLBACKS = {
    "fp16": (("bf16", 1.0),),
    "bf16": (("fp16", 1.0),),
    "tf32": (("bf16", 2.0), ("fp16", 2.0)),
    "fp8": (("bf16", 0.5), ("fp16", 0.5)),
    "int8": (("fp8", 1.0), ("bf16", 0.5), ("fp16", 0.5)),
    "fp64": (("fp32", 1.0),),
}
"""Precisions that replace one without a coefficient, with the factor to apply, assumed from the ratio of peaks."""


POINTWISE = "pointwise"
"""The key for FLOPs outside the matrix units, next to the precisions; without a coefficient, only bytes count."""


class EnergyWork(Struct, frozen=True):
    """The work an energy model counts: FLOPs per precision (pointwise ones separately) and bytes moved."""

    flops: dict[str, float] = {}
    bytes: float = 0.0


def work_of(document: Document, device: Device) -> tuple[EnergyWork, tuple[str, ...]]:
    """The work of one forward pass on `device`, and the names of the ops of unknown cost that it excludes."""
    roofline = roofline_of(document, device)
    costs = document.cost.kinds if document.cost is not None else [cost_of(kind) for kind in document.kinds]
    flops: dict[str, float] = {}
    moved = 0.0
    for row in roofline.kinds:
        work = work_of_kind(costs[row.kind], row.precision)
        for precision, amount in work.flops.items():
            flops[precision] = flops.get(precision, 0.0) + amount * row.count
        moved += work.bytes * row.count
    return EnergyWork(flops, moved), roofline.coverage.unknown


def work_of_kind(cost: KindCost, precision: str | None) -> EnergyWork:
    """The work of one execution that does its matrix products in `precision`."""
    needed = cost.matrix_flops if cost.needed_flops is None else cost.needed_flops
    flops: dict[str, float] = {}
    if needed and precision is not None:
        flops[precision] = needed
    if cost.pointwise_flops:
        flops[POINTWISE] = cost.pointwise_flops
    return EnergyWork(flops, cost.bytes)


def estimate(
    work: EnergyWork,
    seconds: float | None,
    model: EnergyModel,
    *,
    busy_s: float | None = None,
    kernels: float | None = None,
) -> Figure:
    """The energy in joules of `work` that takes `seconds`; unknown if any term is unknown.

    The device is busy for `busy_s`, in as many `kernels`. The power limit is not exceeded.
    """
    if seconds is None and model.static_w:
        return Figure(None, Unknown("the duration is unknown"))
    elapsed = seconds or 0.0
    busy = elapsed if model.idle_w is None else full_s(elapsed, busy_s, kernels, model.ramp_s)
    joules = model.j_per_byte * work.bytes + model.static_w * busy + (model.idle_w or 0.0) * (elapsed - busy)
    assumptions = list(model.assumptions)
    for precision, flops in work.flops.items():
        if not model.j_per_flop:  # the model only counts time
            break
        match = _coefficient(model, precision)
        if match is None and precision == POINTWISE:
            continue  # only its bytes count
        if match is None:
            return Figure(None, Unknown(f"the energy per {precision} FLOP on {model.device} is unknown"))
        name, times = match
        if name != precision:
            assumptions.append(f"a {precision} FLOP takes {times:g} times the energy of a {name} FLOP")
        joules += times * model.j_per_flop[name] * flops
    if model.limit_w is not None and seconds is not None:
        joules = min(joules, model.limit_w * seconds)
    by = f"energy model of {model.device}: {model.source}"
    if model.interval is not None:
        by += f"; 90 % interval from the leave-one-out errors of {len(model.errors)} ops and models"
    return Figure(joules, Modelled(by, tuple(assumptions), model.error, model.interval))


def full_s(seconds: float, busy_s: float | None, kernels: float | None, ramp_s: float) -> float:
    """Seconds during which the device works and is filled: without the start and the end of each kernel."""
    busy = seconds if busy_s is None else min(busy_s, seconds)
    return max(0.0, busy - ramp_s * (kernels or 0.0))


def model_of(report: MachineReport) -> EnergyModel | None:
    """The best coefficients for a measured machine: its own, those of its device, or an estimate per CPU core."""
    hardware = report.hardware
    model = report.energy or energy_model(hardware.name)
    return from_cores(hardware.name) if model is None and hardware.device == "cpu" else model


def energy_model(name: str) -> EnergyModel | None:
    """The coefficients of a device by name: published, or else from its rated power; None if there are neither."""
    try:
        device = find_device(name)
    except UsageError:
        return None
    return published().get(device.name) or from_rated_power(device)


@cache
def published() -> dict[str, EnergyModel]:
    """The built-in calibrated coefficients by device name."""
    data = files("assay.analysis").joinpath("energy.json").read_bytes()
    return {model.device: model for model in msgspec.json.decode(data, type=list[EnergyModel])}


def from_rated_power(device: Device) -> EnergyModel | None:
    """Coefficients with which peak compute, or full bandwidth, draws the rated power; None if a value is unknown."""
    if device.tdp_w is None or device.bandwidth is None or not device.tflops:
        return None
    dynamic_w = (1 - STATIC_SHARE) * device.tdp_w
    return EnergyModel(
        device=device.name,
        j_per_flop={precision: dynamic_w / (tera * 1e12) for precision, tera in device.tflops.items()},
        j_per_byte=dynamic_w / device.bandwidth,
        static_w=STATIC_SHARE * device.tdp_w,
        error=RULE_ERROR,
        source=f"rated power, peaks and bandwidth from {device.source}",
        assumptions=("peak compute or full bandwidth draws the rated power; accurate to a factor of two",),
    )


def from_cores(name: str) -> EnergyModel:
    """The roughest estimate: the rated power per core of current processors, for as long as a core is busy."""
    return EnergyModel(
        device=name,
        static_w=CORE_W,
        per_core=True,
        error=CORE_ERROR,
        source=f"{CORE_W:g} W per busy core × processor time",
        assumptions=(
            "rated power per core: AMD EPYC 9654 3.8 W, Intel Xeon Platinum 8480+ 6.3 W, AMD Ryzen 9 7950X 10.6 W",
            "only the processor time of the pass counts, rest of the machine ignored; accurate to a factor of two",
        ),
    )


def flops_per_joule(flops: float | None, energy_j: Figure) -> Figure:
    """Counted FLOPs per joule, with the error or spread of the energy."""
    if flops is None or not energy_j.value:
        why = energy_j.how.why if isinstance(energy_j.how, Unknown) else "the FLOPs or the energy are unknown"
        return Figure(None, Unknown(why))
    how = energy_j.how
    value = flops / energy_j.value
    if isinstance(how, Measured):
        spread = None if how.spread is None else how.spread / energy_j.value * value
        return Figure(value, Measured(f"counted FLOPs ÷ {how.by}", how.repeats, spread))
    assert isinstance(how, Modelled)
    inverse = None if how.interval is None else (1 / how.interval[1], 1 / how.interval[0])
    return Figure(value, replace(how, by=f"counted FLOPs ÷ {how.by}", interval=inverse))


def _coefficient(model: EnergyModel, precision: str) -> tuple[str, float] | None:
    """The precision whose coefficient is used for `precision`, and the factor to apply."""
    candidates = ((precision, 1.0), *FALLBACKS.get(precision, ()))
    return next(((name, times) for name, times in candidates if name in model.j_per_flop), None)
