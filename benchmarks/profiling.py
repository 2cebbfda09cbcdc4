"""Whether times add up and repeat, also on a busy machine (--load); overheads compared with peers (--peers).

    python benchmarks/profiling.py --runs 21
    python benchmarks/profiling.py --runs 21 --load
    python benchmarks/profiling.py --peers

One thread; each run is a separate process. The pass is compared with CPU time measured without Assay's clocks.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

from harness import environment, hardware

PASSES = 15
CASES = ("resnet50", "mlp300", "gpt2", "bert")
OUTSIDE = 0.01
OVERLAP = 0.9
"""Targets: the largest error of the time outside modules, and the share of ranges that overlap."""


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


def case(name: str, compared: bool) -> dict[str, Any]:
    """The figures of one run; with `compared`, also overheads, peers and roofline errors."""
    import torch

    import assay

    torch.set_num_threads(1)
    model, args, kwargs = subject(name)

    def call() -> None:
        with torch.no_grad():
            model(*args, **kwargs)

    document = assay.profile(model, (args, kwargs))
    timing, profile = document.timing, document.profile
    assert timing is not None
    assert profile is not None
    assert profile.conditions is not None
    how: Any = timing.whole.how
    row = {
        "case": name,
        "modules": len(document.modules),
        "passes": profile.passes,
        "whole_s": timing.whole.value,
        "range_s": how.range if timing.whole.value is not None else None,
        "as_run_s": timing.as_run.value,
        "outside_s": timing.outside.value,
        "waiting": profile.conditions.waiting.value,
        "children above parents": _above_parents(document),
        "largest sum of shares": sum(each.self_share or 0.0 for each in timing.modules if each is not None),
        "ops": profile.closure.value,
        # Direct measurements, without Assay's clocks:
        "cpu_s": _bare_cpu_s(call),
        "direct outside_s": _direct_outside_s(model, args, kwargs),
    }
    return {**row, **_comparison(document, model, call)} if compared else row


def _comparison(document: Any, model: Any, call: Callable[[], None]) -> dict[str, Any]:
    from assay.analysis.achieved import achieved_rates
    from assay.recorder import inventory
    from assay.timing.module_clock import ModuleClock

    index = inventory.take_inventory(model).module_index
    clock = ModuleClock()

    def clocked() -> None:
        with clock:
            call()

    rows = [row for row in achieved_rates(document, _ceilings()) if row.roof_s and (row.time_s or 0.0) > 5e-6]
    return {
        "clock": ratio(call, clocked, PASSES, after=lambda: clock.events(index)),
        "peers": peers(model, call, max(PASSES // 3, 3)),
        "roofline": _quantiles([(row.time_s or 0.0) / row.roof_s for row in rows if row.roof_s]),
    }


def _above_parents(document: Any) -> int:
    """How many modules take longer than the module that contains them."""
    times = document.timing.modules
    pairs = [
        (times[at], times[module.parent]) for at, module in enumerate(document.modules) if module.parent is not None
    ]
    return sum(
        child.total_s > parent.total_s * (1 + 1e-9)
        for child, parent in pairs
        if child is not None and parent is not None and child.total_s is not None
    )


def _bare_cpu_s(call: Callable[[], None]) -> float:
    """CPU seconds of a bare pass, lower quartile: other processes hardly change it."""
    import time

    samples = []
    for _ in range(PASSES):
        begin = time.process_time()
        call()
        samples.append(time.process_time() - begin)
    return statistics.quantiles(samples, n=4, method="inclusive")[0]


def _direct_outside_s(model: Any, args: Any, kwargs: Any) -> float:
    """Seconds of a pass before and after the call of the root module, the least over passes."""
    import time

    import torch

    samples = []
    for _ in range(PASSES):
        begin = time.perf_counter()
        with torch.no_grad():
            called = time.perf_counter()
            model(*args, **kwargs)
            returned = time.perf_counter()
        samples.append(called - begin + time.perf_counter() - returned)
    return min(samples)


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


def checks(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What the runs of one case show, each with whether it meets its target."""
    known = [run for run in runs if run["whole_s"] is not None]
    overlaps = [_overlap(one, other) for one, other in pairwise(runs)]
    errors = [abs(run["outside_s"] - run["direct outside_s"]) / run["whole_s"] for run in known]
    ratios = [run["whole_s"] / run["cpu_s"] for run in known]
    return {
        "case": runs[0]["case"],
        "modules": runs[0]["modules"],
        "waiting": statistics.median(run["waiting"] for run in runs),
        "known": f"{len(known)}/{len(runs)}",
        "outside": max(errors, default=None),
        "above": sum(run["children above parents"] for run in runs),
        "shares": max(run["largest sum of shares"] for run in runs),
        "ratio": f"{min(ratios):.3f} to {max(ratios):.3f}" if ratios else "–",
        "as run": f"{min(run['as_run_s'] / run['cpu_s'] for run in runs):.2f} to "
        f"{max(run['as_run_s'] / run['cpu_s'] for run in runs):.2f}",
        "overlap": f"{sum(overlaps)}/{len(overlaps)}",
        "met": not failures(runs),
    }


def failures(runs: list[dict[str, Any]]) -> list[str]:
    """The targets that the runs of one case miss."""
    known = [run for run in runs if run["whole_s"] is not None]
    overlaps = [_overlap(one, other) for one, other in pairwise(runs)]
    return [
        text
        for text, missed in (
            ("no time", not known),
            ("outside", any(abs(r["outside_s"] - r["direct outside_s"]) > OUTSIDE * r["whole_s"] for r in known)),
            ("a child above its parent", any(run["children above parents"] for run in runs)),
            ("shares above 100 %", any(run["largest sum of shares"] > 1 + 1e-9 for run in runs)),
            ("CPU time", any(not 0.85 <= run["whole_s"] / run["cpu_s"] <= 1.15 for run in known)),
            ("overlap", sum(overlaps) < OVERLAP * len(overlaps)),
        )
        if missed
    ]


def _overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    ranges = one["range_s"], other["range_s"]
    return None not in ranges and ranges[0][0] <= ranges[1][1] and ranges[1][0] <= ranges[0][1]


def table(rows: list[dict[str, Any]]) -> str:
    """The checks as Markdown."""
    lines = [
        "| model | modules | waiting for a processor | runs with times | outside: largest error ÷ pass (target 1 %) "
        "| children above parents | largest sum of self shares "
        "| pass ÷ CPU time of a bare pass (target 0.85 to 1.15) | pass as it ran ÷ CPU time "
        "| ranges of consecutive runs that overlap (target 90 %) | all targets met |",
        "| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for row in rows:
        outside = "–" if row["outside"] is None else f"{100 * row['outside']:.2f} %"
        lines.append(
            f"| {row['case']} | {row['modules']} | {100 * row['waiting']:.0f} % | {row['known']} | {outside} | "
            f"{row['above']} | {100 * row['shares']:.2f} % | {row['ratio']} | {row['as run']} | {row['overlap']} | "
            f"{'yes' if row['met'] else 'no'} |"
        )
    return "\n".join(lines) + "\n"


def comparison_table(rows: list[dict[str, Any]]) -> str:
    """Overheads and roofline errors as Markdown."""
    lines = [
        "CPU time of a clocked pass ÷ that of a bare one:",
        "",
        "| model | modules clocked (target 1.10; mlp300 1.30) | torch.profiler with_modules | DeepSpeed |",
        "| --- | ---: | ---: | ---: |",
    ]
    for row in rows:
        other = row["peers"]
        lines.append(
            f"| {row['case']} | {row['clock']:.3f} | {_shown(other['torch.profiler with_modules'])} | "
            f"{_shown(other['DeepSpeed'])} |"
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


@contextlib.contextmanager
def load(processes: int) -> Iterator[None]:
    """Keep `processes` processors busy inside the block."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for each in busy:
            each.kill()
            each.wait()


def measured(name: str, *options: str) -> dict[str, Any]:
    """The figures of one case, from a process of its own."""
    command = [sys.executable, __file__, "--case", name, *options]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    if done.returncode:
        sys.exit(done.stderr)
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(row, file=sys.stderr)
    return row


def main() -> None:
    """Run every case, print the tables, and fail if a target was missed; --out also writes them to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--runs", type=int, default=2, help="runs of each case, whose ranges are compared")
    parser.add_argument("--load", action="store_true", help="keep all processors busy meanwhile")
    parser.add_argument("--peers", action="store_true", help="also measure overheads, peers and roofline errors")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--case")
    given = parser.parse_args()
    if given.case:
        print(json.dumps(case(given.case, given.peers)))
        return
    names = given.only.split(",")
    with load(os.cpu_count() or 1) if given.load else contextlib.nullcontext():
        runs = {name: [measured(name) for _ in range(given.runs)] for name in names}
    where = "all processors kept busy by other processes" if given.load else "no load by this benchmark"
    text = (
        f"# Profiling, {date.today()}\n\n{hardware()}; {where}.\n\n{table([checks(each) for each in runs.values()])}"
    )
    if given.peers:
        text += "\n" + comparison_table([measured(name, "--peers") for name in names])
    print(text)
    if given.out:
        given.out.write_text(text)
    missed = {name: failures(each) for name, each in runs.items() if failures(each)}
    if missed:
        sys.exit(f"targets missed: {missed}")


if __name__ == "__main__":
    main()
