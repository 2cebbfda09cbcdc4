"""Compare this source tree with another checkout of Assay: ratios of CPU time per workload, measured in one run.

    python benchmarks/versions.py PYTHON_OF_THE_OTHER

The argument is a Python interpreter that imports the other version. Both run each workload alternately in separate
processes, several times. The ratio compares the fastest runs.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROUNDS, REPEATS = 5, 5
COMMANDS = {
    "import assay": ["-c", "import assay"],
    "assay --help": ["-m", "assay", "--help"],
    "assay params": ["-m", "assay", "params", "bf16.safetensors"],
    "assay summary of a document": ["-m", "assay", "summary", "model.assay.json"],
}
WORKLOADS = ("bf16", "fp32", "small", "trace", "observe", "meta", "stats", "capture", "profile")


def net() -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)
    layer = nn.TransformerEncoderLayer(256, 4, 512, batch_first=True)
    return nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).eval(), torch.randn(2, 32, 256)


def make(folder: Path) -> None:
    """The files that the workloads read."""
    import torch
    from safetensors.torch import save_file

    import assay

    torch.manual_seed(0)
    save_file({f"l.{i}": torch.randn(1024, 4096).bfloat16() for i in range(16)}, folder / "bf16.safetensors")
    save_file({f"l.{i}": torch.randn(1024, 2048) for i in range(8)}, folder / "fp32.safetensors")
    save_file({f"l.{i}": torch.randn(16, 16) for i in range(3000)}, folder / "small.safetensors")
    spans = [
        {"ph": "X", "cat": "cpu_op", "name": f"aten::op{i % 40}", "pid": 1, "tid": 1, "ts": 5 * i, "dur": 3.5}
        for i in range(120_000)
    ]
    (folder / "trace.json").write_text(json.dumps({"traceEvents": spans}))
    assay.save(assay.observe(*net()), folder / "model.assay.json")


def workload(name: str) -> Callable[[], object]:
    """The function to time for a workload."""
    import torch

    import assay

    if name in ("bf16", "fp32", "small"):
        return lambda: assay.analyze_weights(f"{name}.safetensors", workers=1)
    if name == "trace":
        return lambda: assay.read_trace("trace.json")
    model, x = net()
    if name in ("observe", "meta"):
        return lambda: assay.observe(model, x, mode="real" if name == "observe" else "meta")
    if name == "profile":
        return lambda: assay.profile(model, x, passes=5)

    def recorded() -> None:
        with torch.no_grad(), assay.record_forward_stats(model, keep=1):
            model(x)

    def captured() -> None:
        with tempfile.TemporaryDirectory() as folder, torch.no_grad(), assay.capture(model, folder):
            model(x)

    return recorded if name == "stats" else captured


def timed(name: str) -> float:
    """CPU seconds of the fastest repetition, after one warm-up."""
    run = workload(name)
    run()
    samples = []
    for _ in range(REPEATS):
        begin = time.process_time()
        run()
        samples.append(time.process_time() - begin)
    return min(samples)


def seconds(python: str, arguments: list[str], folder: str) -> float:
    """The seconds that the process printed, or its CPU time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([python, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    if arguments[0] == __file__:
        return float(done.stdout)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(other: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        cases = {**COMMANDS, **{name: [__file__, "--time", name] for name in WORKLOADS}}
        print("| workload | other (s) | this (s) | this / other |\n| --- | --- | --- | --- |")
        for name, arguments in cases.items():
            pairs = [(seconds(other, arguments, folder), seconds(sys.executable, arguments, folder))
                     for _ in range(ROUNDS)]  # fmt: skip
            old, new = (min(side) for side in zip(*pairs, strict=True))
            print(f"| {name} | {old:.4f} | {new:.4f} | {new / old:.2f} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--time":
        print(timed(sys.argv[2]))
    else:
        __file__ = str(Path(__file__).resolve())
        main(sys.argv[1])
