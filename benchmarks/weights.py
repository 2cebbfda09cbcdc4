"""All statistics of a weight matrix, compared with torch in one run: one thread, CPU time, ratios.

python benchmarks/weights.py [--side N] [--rounds N] [--out FILE]
"""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness import ROOT, Row, hardware, interleaved
from numpy.typing import NDArray

from assay.checkpoint.statistics.chunks import CHUNK_BYTES, TILE_ELEMENTS, Chunk, Weight
from assay.checkpoint.statistics.dtypes import DTYPES as KNOWN
from assay.checkpoint.statistics.engine import EngineOptions, run_here
from assay.checkpoint.statistics.kernel import kernel, name

DTYPES = {"bfloat16": 2, "float16": 2, "float32": 4}
TARGET = {
    ("bfloat16", "blocked torch"): 12.0,
    ("bfloat16", "naive torch"): 250.0,
    ("float32", "naive torch"): 100.0,
}
TARGET_GB_S = {"bfloat16": 4.0}
KERNEL = "only the kernel"


def full_pass(data: NDArray[np.uint8], dtype: str, side: int) -> Callable[[], object]:
    """All statistics that Assay computes for the matrix, including planning and finalizing."""
    weight = Weight(("weight",), dtype, (side, side), "memory", 0, data.size)
    view = memoryview(data)

    def read(chunk: Chunk) -> bytes:
        return view[chunk.offset : chunk.offset + chunk.bytes]  # type: ignore[return-value]

    return lambda: run_here([weight], read, EngineOptions(1))


def kernel_pass(data: NDArray[np.uint8], dtype: str, side: int) -> Callable[[], object]:
    """Only the kernel over the same chunks: counts, figures of rows and columns, digests; nothing is derived."""
    rows = CHUNK_BYTES // (side * DTYPES[dtype]) or 1
    size, tile = rows * side * DTYPES[dtype], max(1, TILE_ELEMENTS // side)
    parts = [data[start : start + size] for start in range(0, data.size, size)]
    row_bytes, native = side * DTYPES[dtype], KNOWN[dtype].native
    return lambda: [kernel.rows(part, native, part.size // row_bytes, side, tile, True, True) for part in parts]


def bandwidth_gb_s(rounds: int) -> float:
    """Read bandwidth of one thread, measured by the digest, which is limited only by memory."""
    data = np.ones(256 << 20, dtype=np.uint8)
    row = interleaved({"read": lambda: kernel.digests(data, 1 << 20)}, rounds)["read"]
    return data.size / (row.best_s or 1.0) / 1e9


def measured(side: int, rounds: int, naive_rounds: int) -> dict[str, dict[str, Row]]:
    """Rows by dtype: Assay and blocked torch alternate; the naive calls get fewer rounds."""
    import torch
    import weights_peers

    torch.set_num_threads(1)
    torch.manual_seed(0)
    found = {}
    for dtype in DTYPES:
        x = (0.02 * torch.randn(side, side)).to(getattr(torch, dtype))
        data = x.view(torch.uint8).numpy().reshape(-1)
        assay = full_pass(data, dtype, side)
        runs = {
            "Assay": assay,
            KERNEL: kernel_pass(data, dtype, side),
            "blocked torch": lambda x=x: weights_peers.blocked(x),
        }
        found[dtype] = interleaved(runs, rounds)
        again = interleaved({"Assay": assay, "naive torch": lambda x=x: weights_peers.naive(x)}, naive_rounds)
        found[dtype]["naive torch"] = again["naive torch"]
    return found


def lines(found: dict[str, dict[str, Row]], side: int, read_gb_s: float) -> list[str]:
    """The lines of the report."""
    out = [
        f"# Weights, {datetime.date.today().isoformat()}",
        "",
        f"{hardware()}. Kernel: {name()}. One {side} x {side} matrix, normal; CPU time, best of the rounds.",
        "",
        "| dtype | tool | CPU, best | Mparam/s | Assay is faster by | target | met |",
        "| --- | --- | --: | --: | --: | --: | --- |",
    ]
    for dtype, rows in found.items():
        base = rows["Assay"].best_s or float("nan")
        for what, row in rows.items():
            if what == KERNEL:
                continue
            best = row.best_s or float("nan")
            target = TARGET.get((dtype, what))
            met = "" if target is None else "yes" if best / base >= target else "no"
            ratio = "" if what == "Assay" else f"{best / base:.1f}x"
            speed = side * side / best / 1e6
            limit = f">= {target:.0f}x" if target else ""
            out.append(f"| {dtype} | {what} | {1e3 * best:.1f} ms | {speed:,.0f} | {ratio} | {limit} | {met} |")
    out += ["", *speeds(found, side, read_gb_s)]
    return [*out, "", f"Read bandwidth of one thread: {read_gb_s:.1f} GB/s.", "", *NOTES]


def speeds(found: dict[str, dict[str, Row]], side: int, read_gb_s: float) -> list[str]:
    """The table of bytes per second."""
    out = [
        "| dtype | Assay, GB/s per core | share of read bandwidth | only the kernel's first pass | target | met |",
        "| --- | --: | --: | --: | --: | --- |",
    ]
    for dtype, rows in found.items():
        size = DTYPES[dtype] * side * side
        speed, alone = (size / (rows[what].best_s or float("nan")) / 1e9 for what in ("Assay", KERNEL))
        target = TARGET_GB_S.get(dtype)
        limit = f">= {target:.1f}" if target else ""
        met = "" if target is None else "yes" if alone >= target else "no"
        share = f"{100 * speed / read_gb_s:.0f} %"
        out.append(f"| {dtype} | {speed:.2f} | {share} | {alone:.2f} | {limit} | {met} |")
    return out


NOTES = [
    "Assay: every statistic, with exact quantiles, including planning and finalizing; float32 takes two passes.",
    "Blocked torch: only light statistics and row-wise quantization. Naive torch: one call per figure over the whole",
    "tensor, quantiles by sorting. Neither computes column norms, denormals, pruning curves or content digests.",
]


def main() -> None:
    """Measure, print and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--naive-rounds", type=int, default=2)
    parser.add_argument(
        "--out", type=Path, default=ROOT / "benchmarks" / "results" / f"weights-{datetime.date.today()}.md"
    )
    options = parser.parse_args()
    read_gb_s = bandwidth_gb_s(options.rounds)
    found = measured(options.side, options.rounds, options.naive_rounds)
    text = "\n".join(lines(found, options.side, read_gb_s)) + "\n"
    options.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
