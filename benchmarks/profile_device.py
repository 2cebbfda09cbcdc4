"""What `assay profile` says on an accelerator, beside torch.utils.benchmark: passes, energy, modelled energy.

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
    """Seconds of a pass by torch's own benchmark, the median."""

    def run() -> None:
        with torch.no_grad():
            model(*args)

    return float(Timer("run()", globals={"run": run}).blocked_autorange(min_run_time=1.0).median)


def alternated(model: Any, args: tuple[Any, ...], device: str) -> float:
    """Assay's time of a pass over torch's, one after the other."""
    profile = assay.profile(model, (args, {}), device=device, seconds=0.5).profile
    assert profile is not None
    return (profile.whole.value or 0.0) / timed(model, args)


def lines(name: str, model: Any, args: tuple[Any, ...], device: str, save: Path | None) -> list[str]:
    """What is found of one model."""
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
    found = [
        f"{name} on {profile.device}",
        f"  pass {units.seconds(profile.whole.value)}; over torch.utils.benchmark in turns: "
        f"{', '.join(f'{ratio:.3f}' for ratio in sorted(ratios))} (wanted 0.95 to 1.05)",
        f"  kernel time of the root {units.seconds(root.device_total_s if root else None)}, "
        f"of all operations {units.seconds(kinds)}",
        f"  module clock over bare {(timing.overhead.value or 0):.3f}",
    ]
    if energy is not None:
        found += [
            f"  energy of a pass {units.joules(energy.whole.value)} ({energy.sensor or energy.why}), modelled "
            f"{units.joules(energy.modelled.value)}, ratio "
            f"{(energy.modelled.value or 0) / (energy.whole.value or 1):.3f} (wanted 0.75 to 1.25)",
            f"  operations replayed {sum(row is not None for row in energy.kinds)}, covering "
            f"{units.share(energy.covered, 1)} of operation time; their sum over the pass "
            f"{units.ratio(energy.closure.value)}",
            f"  average {units.watts(energy.average_w.value)}, peak {units.watts(energy.peak_w.value)}, idle "
            f"{units.watts(energy.idle_w.value)}, {units.count(energy.flops_per_joule.value)} FLOPs a joule",
        ]
    return [*found, *(f"  note: {note}" for note in profile.notes)]


def main() -> None:
    """Measure both models."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--text", type=Path)
    parser.add_argument("--save", type=Path, help="a directory for the documents")
    given = parser.parse_args()
    told = []
    for name, model, args in models(given.device):
        told += lines(name, model, args, given.device, given.save)
        print("\n".join(told[-8:]), flush=True)
    if given.text:
        given.text.write_text("\n".join(told) + "\n")


if __name__ == "__main__":
    main()
