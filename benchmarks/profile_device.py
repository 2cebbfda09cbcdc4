"""`assay profile` on a GPU, on models that the energy model was never fitted to.

Time is compared with torch.utils.benchmark, burst by burst; energy and its modelled interval with the sensor.

    python benchmarks/profile_device.py --seconds-limit 540 --out profile.md
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import nvml_direct
from energy_device import built
from energy_subjects import TESTED, Size, Subject
from torch.utils.benchmark import Timer

from assay import units
from assay.api.profile.options import EnergyOptions, ProfileOptions
from assay.api.profile.profiled import ProfiledModel
from assay.api.profile.run import profile_prepared
from assay.document.provenance import Modelled
from assay.timing.bench import Budget
from assay.timing.peaks.bursts import timed_device

ROUNDS = 15
WITH_OPS = ("LSTM", "ResNet-50, batch 64", "Llama", "ViT", "one-token")
"""Models whose ops are replayed, too; replaying those of all would take too long."""


def bursts(ready: ProfiledModel) -> list[tuple[float, float]]:
    """Seconds per pass by Assay and by torch.utils.benchmark, one pair of bursts per round."""
    pairs = []
    with ready.bench() as runner:
        runner.warm(5)
        seconds = min(runner.clock().wall for _ in range(3)) / 1e9
        timer = Timer("run()", globals={"run": runner.run})
        count = max(1, round(0.05 / seconds))
        for _ in range(ROUNDS):
            ours = runner.repeat_bursts(Budget(0, 1, 1, 0.0))[0] / 1e9
            pairs.append((ours, float(timer.timeit(count).mean)))
    return pairs


def row(subject: Subject, device: str, tiny: bool) -> dict[str, Any]:
    """All figures of one model."""
    ready = built(subject, timed_device(device), Size(tiny=tiny))
    pairs = bursts(ready)
    ops = subject.name.startswith(WITH_OPS)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        options = ProfileOptions(seconds=1.0, budget=50.0, energy=EnergyOptions(by_op=ops))
        document = profile_prepared(ready, options)
    profile, timing = document.profile, document.timing
    assert profile is not None
    assert timing is not None
    return {
        "name": subject.name,
        "ratios": [ours / theirs for ours, theirs in pairs],
        "timing": timing,
        "profile": profile,
        "energy": profile.energy,
        "warnings": len(warned),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The times of all models, and their energy, as Markdown."""
    lines = [
        "| model | pass | host | kernels | device idle | bound by launches | two speeds "
        "| Assay ÷ torch.utils.benchmark: median (10 % to 90 %) |",
        "| --- | --: | --: | --: | --: | --- | --- | --: |",
    ]
    for one in rows:
        timing, cuts = one["timing"], statistics.quantiles(one["ratios"], n=10, method="inclusive")
        modes = ", ".join(f"{mode.passes} × {units.seconds(mode.seconds)}" for mode in timing.modes)
        shown = (units.seconds(each.value) for each in (timing.whole, timing.host, timing.device, timing.gap))
        lines.append(
            f"| {one['name']} | {' | '.join(shown)} | {'yes' if timing.launch_bound else 'no'} | {modes or '–'} | "
            f"{statistics.median(one['ratios']):.3f} ({cuts[0]:.3f} to {cuts[-1]:.3f}) |"
        )
    lines += [
        "",
        "| model | measured | modelled | 90 % interval | error | inside | °C, most | limited by | warnings |",
        "| --- | --: | --: | --- | --: | --- | --: | --- | --: |",
    ]
    lines += [_energy_line(one) for one in rows]
    lines += ["", "Ops replayed, and what the pass takes besides:", ""]
    return "\n".join([*lines, *(line for one in rows for line in _op_lines(one))]) + "\n"


def _energy_line(one: dict[str, Any]) -> str:
    energy = one["energy"]
    measured, modelled = energy.whole.value, energy.modelled.value
    how = energy.modelled.how
    limits = ", ".join((*energy.thermal.throttles, *energy.thermal.limits)) or "–"
    text = f"| {one['name']} | {units.joules(measured)} | {units.joules(modelled)} | "
    if not energy.sensor or modelled is None or not isinstance(how, Modelled) or how.interval is None:
        return f"{text}– | – | – | – | – | {one['warnings']} |"
    low, high = (factor * modelled for factor in how.interval)
    inside = "yes" if low <= measured <= high else "no"
    return (
        f"{text}{units.joules(low)} to {units.joules(high)} | {100 * (modelled / measured - 1):+.1f} % | {inside} | "
        f"{units.ratio(energy.thermal.max_c.value)} | {limits} | {one['warnings']} |"
    )


def _op_lines(one: dict[str, Any]) -> list[str]:
    energy = one["energy"]
    replayed = [kind for kind in energy.kinds if kind is not None]
    if not energy.sensor or not replayed:
        return []
    parts = "; ".join(
        f"{part.name} {units.joules(part.energy.value)} ({units.share(part.energy.value, energy.whole.value)})"
        for part in energy.remainder
    )
    notes = "".join(f"; note: {note}" for note in one["profile"].notes)
    return [
        f"- {one['name']}: {len(replayed)} kinds, {units.share(energy.covered, 1)} of op time, "
        f"sum ÷ pass {units.ratio(energy.closure.value)}; {parts}{notes}"
    ]


def main() -> None:
    """Measure the models until the time limit, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", help="a part of the names of the models to measure")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try this script without a GPU")
    parser.add_argument("--seconds-limit", type=float, default=540.0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    nvml_direct.install()
    start, rows = time.perf_counter(), []
    for subject in TESTED:
        if given.only and given.only not in subject.name:
            continue
        if time.perf_counter() - start > given.seconds_limit:
            print(f"not measured, because the time is up: {subject.name}")
            continue
        try:
            rows.append(row(subject, given.device, given.tiny))
        except Exception:  # noqa: BLE001  one model that fails must not end the run
            traceback.print_exc()
            continue
        print(f"{time.perf_counter() - start:6.1f} s  {subject.name}", flush=True)
        if given.out:
            given.out.write_text(table(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
