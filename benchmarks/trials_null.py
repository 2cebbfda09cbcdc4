"""How often a trial reports a gain where there is none, and whether it finds known gains; also under load (--load).

    python benchmarks/trials_null.py
    python benchmarks/trials_null.py --load --out results.md

A model is tried against a copy of itself, and against one that does the same work 1.05, 1.10 or 1.30 times. Beside
it, the usual way: three warm-up passes, then the average of ten, one model after the other; a ratio beyond 1.05
counts. Fails if a trial reports a difference between a model and its copy, or a gain as a loss.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from harness import environment, hardware
from profiling import load

GAINS = {1.0: (20, 20), 1.05: (21, 20), 1.10: (22, 20), 1.30: (26, 20)}
"""How often the block runs in the original and in the changed model."""
NAIVE = 1.05


def blocks() -> dict[str, Callable[[], tuple[Any, Any]]]:
    """Small models of different kinds, each with its input."""
    import torch
    from torch import nn

    def small() -> tuple[Any, Any]:
        layers = [layer for _ in range(10) for layer in (nn.Linear(64, 64), nn.ReLU())]
        return nn.Sequential(*layers), torch.randn(8, 64)

    def linear() -> tuple[Any, Any]:
        return nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(8))), torch.randn(1, 1024)

    def convolution() -> tuple[Any, Any]:
        return nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3)), torch.randn(1, 3, 64, 64)

    def encoder() -> tuple[Any, Any]:
        return nn.TransformerEncoderLayer(128, 4, 512, batch_first=True), torch.randn(1, 64, 128)

    return {"small": small, "linear": linear, "convolution": convolution, "encoder": encoder}


def repeated(block: Any, times: int) -> Any:
    """A module that runs `block` several times on the same input."""
    from torch import nn

    class Repeated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = block

        def forward(self, values: Any) -> Any:
            for _ in range(times):
                result = self.block(values)
            return result

    return Repeated().eval()


def naive(before: Callable[[], object], after: Callable[[], object]) -> float:
    """The ratio of the averages of ten passes after three warm-up passes, one model after the other."""
    averages = []
    for run in (before, after):
        for _ in range(3):
            run()
        begin = time.perf_counter()
        for _ in range(10):
            run()
        averages.append(time.perf_counter() - begin)
    return averages[0] / averages[1]


def trial(name: str, gain: float, seconds: float, seed: int) -> dict[str, Any]:
    """One trial of a copy of a model against one with less work."""
    import torch

    from assay.trials.compare import compare
    from assay.trials.runnable import Runnable

    torch.manual_seed(seed)
    block, given = blocks()[name]()
    models = [repeated(copy.deepcopy(block), times) for times in GAINS[gain]]
    base, changed = (Runnable(model, (given.clone(),)) for model in models)
    with torch.no_grad():
        usual = naive(base, changed)
    result = compare(base, changed, effect="exact", seconds=seconds, seed=seed)
    low, high = getattr(result.speedup.how, "range", None) or (None, None)
    return {
        "model": name,
        "verdict": result.verdict,
        "speedup": result.speedup.value,
        "low": low,
        "high": high,
        "clock": result.clock,
        "rounds": result.rounds,
        "naive": usual,
    }


def case(gain: float, threads: int, trials: int, seconds: float) -> list[dict[str, Any]]:
    """The trials of one gain, over the models in turn."""
    import torch

    torch.set_num_threads(threads)
    names = list(blocks())
    return [trial(names[seed % len(names)], gain, seconds, seed) for seed in range(trials)]


def summary(gain: float, threads: int, rows: list[dict[str, Any]]) -> str:
    """One line of the table."""
    counts = Counter(row["verdict"] for row in rows)
    known = [row for row in rows if row["low"] is not None]
    covered = sum(row["low"] <= gain <= row["high"] for row in known)
    clocks = ", ".join(f"{clock} {count}" for clock, count in Counter(row["clock"] for row in rows).items())
    usual = sum(row["naive"] > NAIVE for row in rows), sum(row["naive"] < 1 / NAIVE for row in rows)
    verdicts = " | ".join(str(counts[each]) for each in ("faster", "slower", "no difference", "inconclusive"))
    label = "copy of itself" if gain == 1.0 else f"{gain:.2f}×"
    return (
        f"| {label} | {threads} | {len(rows)} | {verdicts} | {covered}/{len(known)} | {clocks} | "
        f"{usual[0]} | {usual[1]} |"
    )


def wrong(gain: float, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The trials with a false verdict: any difference from a copy, or a loss instead of a gain."""
    false = ("faster", "slower") if gain == 1.0 else ("slower",)
    return [row for row in rows if row["verdict"] in false]


def measured(gain: float, threads: int, given: argparse.Namespace) -> list[dict[str, Any]]:
    """The trials of one case, from a process of its own."""
    trials = given.trials if gain == 1.0 else given.detections
    command = [sys.executable, __file__, "--case", f"{gain},{threads},{trials},{given.seconds}"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    if done.returncode:
        sys.exit(done.stderr)
    rows: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    print(summary(gain, threads, rows), file=sys.stderr, flush=True)
    return rows


HEADER = (
    "| true gain | threads | trials | faster | slower | no difference | inconclusive | intervals with the true gain "
    "| compared by | usual way: faster | usual way: slower |\n"
    "| --- | --: | --: | --: | --: | --: | --: | --: | --- | --: | --: |"
)


def main() -> None:
    """Run every case, print the table, and fail after a false verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=50, help="trials of a model against its copy")
    parser.add_argument("--detections", type=int, default=20, help="trials of each known gain")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds per trial")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--gains", default=",".join(map(str, GAINS)))
    parser.add_argument("--load", action="store_true", help="keep all processors busy meanwhile")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        gain, threads, trials, seconds = given.case.split(",")
        print(json.dumps(case(float(gain), int(threads), int(trials), float(seconds))))
        return
    cases = [(float(gain), int(each)) for each in given.threads.split(",") for gain in given.gains.split(",")]
    with load(os.cpu_count() or 1) if given.load else contextlib.nullcontext():
        found = {each: measured(*each, given) for each in cases}
    where = "all processors kept busy by other processes" if given.load else "no load by this benchmark"
    lines = [summary(gain, threads, rows) for (gain, threads), rows in found.items()]
    text = f"# Trials, {date.today()}\n\n{hardware()}; {where}; {given.seconds:g} s per trial.\n\n{HEADER}\n"
    text += "\n".join(lines) + "\n"
    print(text)
    if given.out:
        given.out.write_text(text)
    false = [(gain, row) for (gain, _), rows in found.items() for row in wrong(gain, rows)]
    if false:
        sys.exit(f"false verdicts: {false}")


if __name__ == "__main__":
    main()
