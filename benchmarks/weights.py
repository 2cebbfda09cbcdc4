"""Statistics of checkpoints: speed per type beside reading the file, hard data, small tensors, and plain torch.

python benchmarks/weights.py [--megabytes N] [--rounds N] [--out FILE]

CPU time of one run, interleaved. Assay computes every statistic; files are in the page cache.
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import weights_making as making
from harness import ROOT, Row, children_cpu_s, environment, hardware, interleaved
from numpy.typing import NDArray

from assay.checkpoint.files import Files
from assay.checkpoint.open import open_checkpoint
from assay.checkpoint.reading import RangeReader
from assay.checkpoint.statistics.chunks import Weight
from assay.checkpoint.statistics.engine import EngineOptions, run, run_here
from assay.checkpoint.statistics.kernel import name
from assay.checkpoint.statistics.run import statistics
from assay.checkpoint.statistics.settings import StatisticsSettings

GOAL_GB_S = {"bfloat16": 3.5, "float32": 1.9, "float8_e4m3fn": 2.0, "int8": 2.0}
"""Set on a machine where reading took 18.3 GB per CPU second."""
GOAL_READ_GB_S = 18.3
BEFORE_GB_S = {"bfloat16": 2.8, "float32": 1.4, "float8_e4m3fn": 0.43, "int8": 0.43}
"""Before 8-bit types had a native pass, on that machine."""
GOAL_THREADS = 1.8
GOAL_HARD = 2.0
GOAL_TORCH = {
    ("bfloat16", "blocked torch"): 12.0,
    ("bfloat16", "naive torch"): 250.0,
    ("float32", "naive torch"): 100.0,
}
GOAL_SMALL_US = 60.0
GOAL_COMMANDS_S = {"10,000 tensors of 2 KB": 1.5, "18 MB": 0.25}
BLOCK = 1 << 20
SIDE = 4096


def reading(path: Path) -> Callable[[], object]:
    """Read the file into one buffer of 1 MB."""
    buffer = memoryview(bytearray(BLOCK))

    def read() -> None:
        with path.open("rb", buffering=0) as file:
            for offset in range(0, os.fstat(file.fileno()).st_size, BLOCK):
                os.preadv(file.fileno(), [buffer], offset)

    return read


def analysing(path: Path) -> Callable[[], object]:
    """Open the file and compute all statistics in one thread."""

    def analyse() -> None:
        files = Files()
        entries = open_checkpoint(path, files=files).entries
        rows = statistics(entries, RangeReader(files), StatisticsSettings(workers=1), files=files)
        assert not any(row.problem for row in rows)

    return analyse


def speedup_of_two_threads(path: Path) -> float:
    """CPU time of one thread over that of the busier of two: what two free cores give, whatever else runs."""

    def busiest(threads: int) -> float:
        files = Files()
        barrier = Barrier(threads)

        def own_time(_: int) -> float:
            barrier.wait()
            return time.thread_time()

        weights = [
            Weight(each.names, each.dtype, each.shape, each.span.file, each.span.offset, each.span.length)
            for each in open_checkpoint(path, files=files).entries
            if each.span is not None
        ]
        with ThreadPoolExecutor(threads) as pool:
            list(run(weights, RangeReader(files), EngineOptions(threads), pool))
            return max(pool.map(own_time, range(threads)))

    return min(busiest(1) for _ in range(3)) / min(busiest(2) for _ in range(3))


def met(holds: bool) -> str:
    """The last cell of a row with a goal."""
    return "yes" if holds else "no"


def file_lines(folder: Path, megabytes: int, rounds: int) -> list[str]:
    """GB per CPU second of every type, beside reading the same file."""
    out = [
        "| dtype | GB per CPU second | read | ÷ | before | goal | met | goal ÷ | met | two threads | met |",
        "| --- | --: | --: | --: | --: | --: | --- | --: | --- | --: | --- |",
    ]
    for dtype in making.NAMES:
        path = making.matrices(
            folder / dtype, dtype, megabytes, lambda count, dtype=dtype: making.stored(making.normal(count), dtype)
        )
        rows = interleaved({"read": reading(path), "Assay": analysing(path)}, rounds)
        read_s, assay_s = (rows[what].best_s or float("nan") for what in ("read", "Assay"))
        size = path.stat().st_size / 1e9
        speed, ratio, threads = size / assay_s, assay_s / read_s, speedup_of_two_threads(path)
        goal = GOAL_GB_S.get(dtype)
        cells = [dtype, f"{speed:.2f}", f"{size / read_s:.1f}", f"{ratio:.1f}"]
        if goal:
            most = GOAL_READ_GB_S / goal
            cells += [
                f"{BEFORE_GB_S[dtype]:.2f}",
                f"≥ {goal}",
                met(speed >= goal),
                f"≤ {most:.1f}",
                met(ratio <= most),
            ]
        else:
            cells += [""] * 5
        out.append(f"| {' | '.join([*cells, f'{threads:.2f}×', met(threads >= GOAL_THREADS)])} |")
        path.unlink()
    return out


def hard_lines(folder: Path, megabytes: int, rounds: int) -> list[str]:
    """How much longer hard data of the same type takes."""
    out = [
        f"| dtype | {' | '.join(making.HARD)} | met (≤ {GOAL_HARD:.0f}×) |",
        f"| --- |{' --: |' * len(making.HARD)} --- |",
    ]
    for dtype in making.NAMES:
        kinds = {"normal": lambda count, dtype: making.stored(making.normal(count), dtype), **making.HARD}
        paths = {
            kind: making.matrices(
                folder / f"{dtype}-{at}", dtype, megabytes, lambda count, data=data, dtype=dtype: data(count, dtype)
            )
            for at, (kind, data) in enumerate(kinds.items())
        }
        rows = interleaved({kind: analysing(path) for kind, path in paths.items()}, rounds)
        normal_s = rows["normal"].best_s or float("nan")
        ratios = [(rows[kind].best_s or float("nan")) / normal_s for kind in making.HARD]
        out.append(
            f"| {dtype} | {' | '.join(f'{ratio:.2f}×' for ratio in ratios)} | {met(max(ratios) <= GOAL_HARD)} |"
        )
        for path in paths.values():
            path.unlink()
    return out


def small_lines(folder: Path, rounds: int) -> list[str]:
    """Time of one small tensor, and of whole commands."""
    out = ["| what | CPU time | goal | met |", "| --- | --: | --: | --- |"]
    for dtype in ("bfloat16", "float32", "int8"):
        each_s = 8192 // making.BYTES[dtype]
        data = making.stored(making.normal(each_s), dtype)
        weight = Weight(("w",), dtype, (each_s // 64, 64), "memory", 0, data.size)
        many = [weight] * 200
        run_all = lambda many=many, data=data: run_here(many, lambda chunk: data.data, EngineOptions(1))  # noqa: E731
        row = interleaved({"small": run_all}, 5 * rounds)["small"]
        micros = (row.best_s or float("nan")) / len(many) * 1e6
        out.append(
            f"| 8 KB of {dtype} | {micros:.0f} µs | ≤ {GOAL_SMALL_US:.0f} µs | {met(micros <= GOAL_SMALL_US)} |"
        )
    for what, path in command_files(folder).items():
        command = [sys.executable, "-m", "assay", "params", str(path)]
        run_it = lambda command=command: subprocess.run(  # noqa: E731
            command, env=environment(), check=True, capture_output=True
        )
        seconds = interleaved({what: run_it}, max(3, rounds), children_cpu_s)[what].best_s or float("nan")
        goal = GOAL_COMMANDS_S[what]
        out.append(f"| `assay params`, {what} | {seconds:.2f} s | ≤ {goal} s | {met(seconds <= goal)} |")
    return out


def command_files(folder: Path) -> dict[str, Path]:
    """The files of the timed commands: many small tensors, and a small model."""
    small = making.stored(making.normal(1024), "bfloat16")
    many = {f"layers.{at}.w": ("bfloat16", (32, 32), small) for at in range(10_000)}
    shapes = {"attn.q": (512, 512), "attn.k": (512, 512), "mlp.up": (512, 1024), "mlp.bias": (1024,), "norm": (512,)}
    model = {
        f"layers.{layer}.{part}.weight": (
            "float32",
            shape,
            making.stored(making.normal(int(np.prod(shape))), "float32"),
        )
        for layer in range(4)
        for part, shape in shapes.items()
    }
    return {
        "10,000 tensors of 2 KB": making.write(folder / "many.safetensors", many),
        "18 MB": making.write(folder / "model.safetensors", model),
    }


def torch_lines(rounds: int) -> list[str]:
    """One matrix in memory, compared with torch: Assay and blocked torch alternate; naive calls get fewer rounds."""
    import torch
    import weights_peers

    torch.set_num_threads(1)
    out = ["| dtype | tool | CPU, best | Assay is faster by | goal | met |", "| --- | --- | --: | --: | --: | --- |"]
    for dtype in ("bfloat16", "float16", "float32"):
        data = making.stored(making.normal(SIDE * SIDE), dtype)
        x = torch.from_numpy(data).view(getattr(torch, dtype)).reshape(SIDE, SIDE)
        assay = in_memory(data, dtype)
        rows: dict[str, Row] = interleaved(
            {"Assay": assay, "blocked torch": lambda x=x: weights_peers.blocked(x)}, rounds
        )
        rows["naive torch"] = interleaved({"naive torch": lambda x=x: weights_peers.naive(x)}, 2)["naive torch"]
        base = rows["Assay"].best_s or float("nan")
        out.append(f"| {dtype} | Assay | {1e3 * base:.1f} ms | | | |")
        for what in ("blocked torch", "naive torch"):
            ratio, goal = (rows[what].best_s or float("nan")) / base, GOAL_TORCH.get((dtype, what))
            checked = f"≥ {goal:.0f}× | {met(ratio >= goal)}" if goal else " | "
            out.append(f"| {dtype} | {what} | {1e3 * ratio * base:.1f} ms | {ratio:.1f}× | {checked} |")
    return out


def in_memory(data: NDArray[np.uint8], dtype: str) -> Callable[[], object]:
    """All statistics of a square matrix in memory."""
    weight = Weight(("weight",), dtype, (SIDE, SIDE), "memory", 0, data.size)
    view = data.data
    return lambda: run_here([weight], lambda chunk: view[chunk.offset : chunk.offset + chunk.bytes], EngineOptions(1))


def report(sections: Mapping[str, list[str]]) -> str:
    """The text of the report."""
    out = [f"# Weights, {datetime.date.today().isoformat()}", "", f"{hardware()}. Kernel: {name()}.", *NOTES]
    for title, lines in sections.items():
        out += ["", f"## {title}", "", *lines]
    return "\n".join(out) + "\n"


NOTES = [
    "CPU time, best of interleaved rounds. Assay computes every statistic, with exact quantiles; types of 32 and 64",
    "bits take two or more passes. *Read* is `pread` of the same page-cached file into a reused buffer of 1 MB. The",
    "goals were set where that took 18.3 GB per CPU second; *goal ÷* is the same goal as a multiple of reading. *Two",
    "threads* is the CPU time of one thread over that of the busier of two. Blocked torch computes only light",
    "statistics and row-wise quantization, naive torch one call per figure; neither computes column norms,",
    "denormals, pruning or digests.",
]


def main() -> None:
    """Measure, print and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--out", type=Path, default=ROOT / "benchmarks" / "results" / f"weights-{datetime.date.today()}.md"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name_of_folder:
        folder = Path(name_of_folder)
        sections = {
            "Files beside reading them": file_lines(folder, options.megabytes, options.rounds),
            "Hard data, compared with normal values": hard_lines(folder, 64, options.rounds),
            "Small tensors and files": small_lines(folder, options.rounds),
            "One 4096 × 4096 matrix in memory, beside torch": torch_lines(options.rounds),
        }
    text = report(sections)
    options.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
