"""Figures of `assay profile` on an accelerator, compared with torch.utils.benchmark: passes and energy.

python benchmarks/profile_device.py --text profile.txt
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch
from device_models import models
from torch.utils.benchmark import Timer

import assay
from assay import units

ROUNDS = 3


def timed(model: Any, args: tuple[Any, ...]) -> float:
    """Median seconds of a pass, from torch's own benchmark."""

    def run() -> None:
        with torch.no_grad():
            model(*args)

    return float(Timer("run()", globals={"run": run}).blocked_autorange(min_run_time=1.0).median)


def alternated(model: Any, args: tuple[Any, ...], device: str) -> float:
    """Assay's time of a pass ÷ torch's, measured one after the other."""
    profile = assay.profile(model, (args, {}), device=device, seconds=0.5).profile
    assert profile is not None
    return (profile.whole.value or 0.0) / timed(model, args)


def lines(name: str, model: Any, args: tuple[Any, ...], device: str, save: Path | None) -> list[str]:
    """The report of one model."""
    timed(model, args)  # warms up the device
    ratios = [alternated(model, args, device) for _ in range(ROUNDS)]
    document = assay.profile(model, (args, {}), device=device, seconds=2.0, energy=True, energy_ops=True, system=True)
    if save is not None:
        assay.save(document, save / f"{name.split()[0].lower()}.assay.json.gz")
    profile, timing = document.profile, document.timing
    assert profile is not None
    assert timing is not None
    energy = profile.energy
    root = timing.modules[0]
    kinds = sum(time.total_s for time in profile.kinds if time is not None)
    report = [
        f"{name} on {profile.device}",
        f"  pass {units.seconds(profile.whole.value)}; ÷ torch.utils.benchmark, alternating: "
        f"{', '.join(f'{ratio:.3f}' for ratio in sorted(ratios))} (target 0.95 to 1.05)",
        f"  kernel time of the root {units.seconds(root.device_total_s if root else None)}, "
        f"of all ops {units.seconds(kinds)}",
        f"  pass with module clock ÷ bare pass {(timing.overhead.value or 0):.3f}",
    ]
    if energy is not None:
        report += [
            f"  energy of a pass {units.joules(energy.whole.value)} ({energy.sensor or energy.why}), modelled "
            f"{units.joules(energy.modelled.value)}, ratio "
            f"{(energy.modelled.value or 0) / (energy.whole.value or 1):.3f} (target 0.75 to 1.25)",
            f"  ops replayed {sum(row is not None for row in energy.kinds)}, covering "
            f"{units.share(energy.covered, 1)} of op time; sum of op energies ÷ pass "
            f"{units.ratio(energy.closure.value)}",
            *(
                f"  not in op energies: {part.name} {units.joules(part.energy.value)} "
                f"({units.share(part.energy.value, energy.whole.value)} of the pass)"
                for part in energy.remainder
            ),
            f"  temperature at the start, the end and at most {', '.join(degrees(energy))} °C; throttled by "
            f"{', '.join(energy.thermal.throttles) or 'nothing'}; limited by "
            f"{', '.join(energy.thermal.limits) or 'nothing'}",
            f"  average {units.watts(energy.average_w.value)}, peak {units.watts(energy.peak_w.value)}, idle "
            f"{units.watts(energy.idle_w.value)}, {units.count(energy.flops_per_joule.value)} FLOPs per joule",
        ]
    return [*report, *(f"  note: {note}" for note in profile.notes)]


def degrees(energy: Any) -> list[str]:
    """The temperatures of the pass as text."""
    thermal = energy.thermal
    return [units.ratio(figure.value) for figure in (thermal.start_c, thermal.end_c, thermal.max_c)]


def main() -> None:
    """Measure both models."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--text", type=Path)
    parser.add_argument("--save", type=Path, help="save the documents in this directory")
    given = parser.parse_args()
    report = []
    for name, model, args in models(given.device):
        block = lines(name, model, args, given.device, given.save)
        print("\n".join(block), flush=True)
        report += block
    if given.text:
        given.text.write_text("\n".join(report) + "\n")


if __name__ == "__main__":
    main()
