"""Accuracy and overhead of profiling: self times compared with a bare pass, overhead of peers, roofline errors.

Run it with one thread on an idle machine. Each case is a separate process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from harness import environment, hardware

PASSES = 15
CASES = ("resnet50", "mlp300", "gpt2", "bert")


def mlp() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Three hundred small modules: only overhead."""
    import torch
    from torch import nn

    layers = [layer for _ in range(150) for layer in (nn.Linear(64, 64), nn.ReLU())]
    return nn.Sequential(*layers).eval(), (torch.randn(8, 64),), {}


def subject(name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The model of a case and its arguments."""
    from capture import bert_base, gpt2_124m, resnet50

    if name == "mlp300":
        return mlp()
    made = {"resnet50": resnet50, "gpt2": gpt2_124m, "bert": bert_base}[name]()
    return made.model, made.args, made.kwargs


def ratio(
    bare: Callable[[], None], other: Callable[[], None], rounds: int, after: Callable[[], object] = lambda: None
) -> float:
    """CPU time of `other` ÷ `bare`, each the minimum over interleaved rounds; `after` is not timed."""
    import time

    samples: dict[int, list[int]] = {0: [], 1: []}
    for run in (bare, other):
        run()
    for _ in range(rounds):
        for index, run in enumerate((bare, other)):
            begin = time.process_time_ns()
            run()
            samples[index].append(time.process_time_ns() - begin)
            after()
    return min(samples[1]) / min(samples[0])


def peers(model: Any, call: Callable[[], None], rounds: int) -> dict[str, float | str]:
    """Time of a pass with other tools ÷ the bare pass."""
    import torch

    def torch_profiler() -> None:
        with torch.profiler.profile(with_modules=True):
            call()

    ratios: dict[str, float | str] = {"torch.profiler with_modules": ratio(call, torch_profiler, rounds)}
    try:
        from deepspeed.profiling.flops_profiler import FlopsProfiler
    except ImportError:
        return ratios | {"DeepSpeed": "not installed"}
    profiler = FlopsProfiler(model)

    def deepspeed() -> None:
        profiler.start_profile()
        call()
        profiler.end_profile()

    return ratios | {"DeepSpeed": ratio(call, deepspeed, rounds)}


def case(name: str) -> dict[str, Any]:
    """All figures of one model."""
    import torch

    import assay
    from assay.analysis.achieved import achieved_rates
    from assay.recorder import inventory
    from assay.timing.module_clock import ModuleClock

    torch.set_num_threads(1)
    model, args, kwargs = subject(name)

    def call() -> None:
        with torch.no_grad():
            model(*args, **kwargs)

    index = inventory.take_inventory(model).module_index
    clock = ModuleClock()

    def clocked() -> None:
        with clock:
            call()

    overhead = ratio(call, clocked, PASSES, after=lambda: clock.spans(index))
    document = assay.profile(model, (args, kwargs), passes=PASSES, warmup=2)
    bare = _bare_seconds(call)
    timing, profile = document.timing, document.profile
    assert timing is not None
    assert profile is not None
    inside = sum(row.self_s for row in timing.modules if row is not None)
    rows = [row for row in achieved_rates(document, _ceilings()) if row.roof_s and row.time_s > 5e-6]
    errors = [row.time_s / row.roof_s for row in rows if row.roof_s]
    return {
        "case": name,
        "modules": len(index),
        "self over bare": (inside + (timing.outside.value or 0.0)) / bare,
        "clock": overhead,
        "ops over bare": profile.closure.value,
        "peers": peers(model, call, max(PASSES // 3, 3)),
        "roofline": _quantiles(errors),
    }


def _bare_seconds(call: Callable[[], None]) -> float:
    """Median seconds of a bare pass, without Assay's clocks."""
    import time

    samples = []
    for _ in range(PASSES):
        begin = time.perf_counter()
        call()
        samples.append(time.perf_counter() - begin)
    return statistics.median(samples)


def _ceilings() -> Any:
    """The limits of this machine with the current number of threads; measured once."""
    from assay.analysis.ceilings import as_device
    from assay.api.machine import measure_machine

    return as_device(measure_machine("cpu"))


def _quantiles(values: list[float]) -> dict[str, float] | None:
    if len(values) < 2:
        return None
    cuts = statistics.quantiles(values, n=10, method="inclusive")
    return {"kinds": len(values), "p10": cuts[0], "median": statistics.median(values), "p90": cuts[8]}


def table(rows: list[dict[str, Any]]) -> str:
    """The results as Markdown."""
    lines = [
        "| model | modules | (self times + outside) ÷ bare pass (target 0.95 to 1.05) "
        "| timed pass ÷ bare pass (target 1.10; 1.30 for the small modules) "
        "| torch.profiler with_modules | DeepSpeed | sum of op times ÷ bare pass |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        other = row["peers"]
        lines.append(
            f"| {row['case']} | {row['modules']} | {row['self over bare']:.3f} | {row['clock']:.3f} | "
            f"{_shown(other['torch.profiler with_modules'])} | {_shown(other['DeepSpeed'])} | "
            f"{row['ops over bare']:.3f} |"
        )
    lines += ["", "Measured time of an op ÷ its roofline bound with this machine's limits, for kinds that take more",
              "than 5 microseconds; below one if operands were still in a cache:", "",
              "| model | kinds | 10 % | median | 90 % |", "| --- | ---: | ---: | ---: | ---: |"]  # fmt: skip
    for row in rows:
        roof = row["roofline"]
        keys = ("kinds", "p10", "median", "p90")
        shown = " | ".join(f"{roof[key]:.3g}" if roof else "–" for key in keys)
        lines.append(f"| {row['case']} | {shown} |")
    return "\n".join(lines) + "\n"


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.2f}"


def main() -> None:
    """Run every case and print the table; --out also writes it to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--case")
    given = parser.parse_args()
    if given.case:
        print(json.dumps(case(given.case)))
        return
    rows = []
    for name in given.only.split(","):
        done = subprocess.run(
            [sys.executable, __file__, "--case", name], capture_output=True, text=True, env=environment(), check=False
        )
        if done.returncode:
            sys.exit(done.stderr)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(rows[-1], file=sys.stderr)
    text = f"# Profiling, {date.today()}\n\n{hardware()}.\n\n{table(rows)}"
    print(text)
    if given.out:
        given.out.write_text(text)


if __name__ == "__main__":
    main()
