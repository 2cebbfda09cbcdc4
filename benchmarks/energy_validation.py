"""Fits the energy model to collected ops and models, and compares its estimates with models that were not fitted."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import msgspec

from assay.analysis.devices import find_device
from assay.analysis.energy import EnergyWork, estimate, work_of
from assay.analysis.energy_fit import EnergySample, calibrate
from assay.document.document import Document
from assay.document.machine import EnergyModel
from assay.document.provenance import Modelled

DEVICE = "H200"
OP, FIT, TEST = "op", "fit", "test"
SMALL = ("GPT-2 size", "VGG-16", "decoder, 1 of 64", "LSTMCell loop")
"""Beginnings of the names of fitted models much like those that `assay machine --energy` replays beside its ops."""


BOARDS = 1.08
"""By how much the interval of published coefficients is wider: boards of the same model differ by 8 % on average."""


class Estimate(NamedTuple):
    """The modelled energy of one sample, beside the measured one."""

    sample: EnergySample
    joules: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """The relative error of the estimate."""
        return self.joules / self.sample.joules - 1

    @property
    def inside(self) -> bool:
        """Whether the measured energy lies in the stated range."""
        return self.low <= self.sample.joules <= self.high


def samples(data: Path) -> dict[str, list[EnergySample]]:
    """The collected samples by use; FLOPs and bytes are counted again from the recorded passes."""
    rows = json.loads(data.read_text())["rows"]
    works = dict(_works(data.with_name("documents.jsonl.gz")))
    found: dict[str, list[EnergySample]] = {OP: [], FIT: [], TEST: []}
    for row in rows:
        work = works[row["name"]]
        if row["tf32"]:
            work = EnergyWork({"tf32" if name == "fp32" else name: n for name, n in work.flops.items()}, work.bytes)
        seconds, joules = fmean(row["seconds"]), fmean(row["joules"])
        found[row["use"]].append(EnergySample(row["name"], work, seconds, joules, row["busy_s"], row["launches"]))
    return found


def _works(path: Path) -> Iterator[tuple[str, EnergyWork]]:
    device = find_device(DEVICE)
    with gzip.open(path, "rb") as file:
        for line in file:
            row = msgspec.json.decode(line)
            work, _ = work_of(msgspec.convert(row["document"], Document), device)
            yield row["name"], work


def estimates(model: EnergyModel, tested: Sequence[EnergySample]) -> list[Estimate]:
    """The estimate of each sample, with its stated range."""
    result = []
    for sample in tested:
        figure = estimate(sample.work, sample.seconds, model, busy_s=sample.busy_s, kernels=sample.kernels)
        assert figure.value is not None
        assert isinstance(figure.how, Modelled)
        error = 1 + (figure.how.error or 0.0)
        low, high = figure.how.interval or (1 / error, error)
        result.append(Estimate(sample, figure.value, low * figure.value, high * figure.value))
    return result


def report(data: Path) -> tuple[EnergyModel, list[str]]:
    """The fitted model, and the tables of its errors as Markdown."""
    about, every = json.loads(data.read_text()), samples(data)
    source = (
        f"calibration on one {about['device']}, torch {about['torch']}, driver {about['driver']}, {about['date']}"
    )
    idle_w, limit_w = about["idle_start_w"], about["limit_w"]
    whole = calibrate([*every[OP], *every[FIT]], DEVICE, source, idle_w, limit_w)
    ops = calibrate(every[OP], DEVICE, source, idle_w, limit_w)
    small = [one for one in every[FIT] if one.name.startswith(SMALL)]
    machine = calibrate([*every[OP], *small], DEVICE, source, idle_w, limit_w)
    assert whole is not None
    assert ops is not None
    assert machine is not None
    lines = [
        f"{source.removeprefix('calibration on ')}; sensor {about['sensor']}, "
        f"idle {idle_w:.0f} W at the start and {about.get('idle_end_w') or float('nan'):.0f} W at the end, "
        f"power limit {limit_w or float('nan'):.0f} W.",
        "",
        f"Fitted to {len(every[OP])} ops and {len(every[FIT])} models; tested on {len(every[TEST])} other models.",
        "",
        *_coefficients(whole),
        "",
        *_summary({"ops and models": whole, "ops and 4 small models": machine, "ops": ops}, every[TEST]),
        "",
        *_tested(estimates(whole, every[TEST])),
        "",
        *_left_out(whole, every),
    ]
    if about["skipped"]:
        lines += ["", *[f"- not measured: {one['name']} ({one['why']})" for one in about["skipped"]]]
    return whole, lines


def _coefficients(model: EnergyModel) -> list[str]:
    low, high = model.interval or (0.0, 0.0)
    flops = ", ".join(f"{name} {1e12 * each:.3f}" for name, each in model.j_per_flop.items())
    return [
        f"Coefficients: {flops} pJ per FLOP; {1e12 * model.j_per_byte:.1f} pJ per byte; busy {model.static_w:.0f} W; "
        f"waiting {model.idle_w or 0:.0f} W; also {1e6 * model.ramp_s:.1f} µs of each kernel; "
        f"at most {model.limit_w or 0:.0f} W.",
        "",
        f"Leave-one-out: median error {100 * (model.error or 0):.1f} %; in 90 % of cases, the energy is {low:.2f} to "
        f"{high:.2f} times the estimate.",
    ]


def _summary(models: dict[str, EnergyModel], tested: Sequence[EnergySample]) -> list[str]:
    lines = ["| fitted to | median error | worst | inside the range | range |", "| --- | --: | --: | --: | --- |"]
    for name, model in models.items():
        rows = estimates(model, tested)
        errors = [abs(row.error) for row in rows]
        low, high = model.interval or (0.0, 0.0)
        lines.append(
            f"| {name} | {100 * median(errors):.1f} % | {100 * max(errors):.0f} % | "
            f"{sum(row.inside for row in rows)} of {len(rows)} | {low:.2f} to {high:.2f} |"
        )
    return lines


def _tested(rows: Sequence[Estimate]) -> list[str]:
    lines = [
        "| model, never fitted | measured | W | busy | modelled | range | error | inside |",
        "| --- | --: | --: | --: | --: | --- | --: | --- |",
    ]
    for row in rows:
        one, inside = row.sample, "yes" if row.inside else "no"
        lines.append(
            f"| {one.name} | {_mj(one.joules)} | {one.joules / one.seconds:.0f} "
            f"| {100 * busy(one):.0f} % "
            f"| {_mj(row.joules)} | {_mj(row.low)} to {_mj(row.high)} | {100 * row.error:+.1f} % | {inside} |"
        )
    return lines


def _left_out(model: EnergyModel, every: dict[str, list[EnergySample]]) -> list[str]:
    lines = ["| fitted op or model | W | busy | error when left out |", "| --- | --: | --: | --: |"]
    for one in (*every[OP], *every[FIT]):
        lines.append(
            f"| {one.name} | {one.joules / one.seconds:.0f} | {100 * busy(one):.0f} % "
            f"| {100 * model.errors[one.name]:+.1f} % |"
        )
    return lines


def busy(sample: EnergySample) -> float:
    """The share of the time during which the device worked."""
    return 1.0 if sample.busy_s is None else min(1.0, sample.busy_s / sample.seconds)


def _mj(joules: float) -> str:
    return f"{1e3 * joules:.4g} mJ"


def as_json(model: EnergyModel) -> dict[str, Any]:
    """The model as `energy.json` stores it, with rounded figures and an interval for other boards, too."""
    assert model.interval is not None
    low, high = model.interval
    return msgspec.to_builtins(
        msgspec.structs.replace(
            model,
            j_per_flop={name: float(f"{each:.3g}") for name, each in model.j_per_flop.items()},
            j_per_byte=float(f"{model.j_per_byte:.3g}"),
            static_w=round(model.static_w, 1),
            idle_w=None if model.idle_w is None else round(model.idle_w, 1),
            error=round(model.error or 0.0, 3),
            interval=(round(low / BOARDS, 2), round(high * BOARDS, 2)),
            assumptions=(
                f"the interval of the measured board, {low:.2f} to {high:.2f}, widened by 8 % for other boards",
                "random data; the given time is right",
            ),
            errors={name: round(error, 3) for name, error in model.errors.items()},
        )
    )
