"""All statistics of a weight matrix beside torch's calls, in one run: one thread, CPU time, ratios.

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
WANTED = {
    ("bfloat16", "blocked torch"): 12.0,
    ("bfloat16", "naive torch"): 250.0,
    ("float32", "naive torch"): 100.0,
}
WANTED_GB_S = {"bfloat16": 4.0}
KERNEL = "kernel alone"


def full_pass(data: NDArray[np.uint8], dtype: str, side: int) -> Callable[[], object]:
    """Everything Assay says about the matrix, planning and finalizing included."""
    weight = Weight(("weight",), dtype, (side, side), "memory", 0, data.size)
    view = memoryview(data)

    def read(chunk: Chunk) -> bytes:
        return view[chunk.offset : chunk.offset + chunk.bytes]  # type: ignore[return-value]

    return lambda: run_here([weight], read, EngineOptions(1))


def kernel_pass(data: NDArray[np.uint8], dtype: str, side: int) -> Callable[[], object]:
    """The kernel alone over the same chunks: counting, row figures, columns, digests; nothing is made of them."""
    rows = CHUNK_BYTES // (side * DTYPES[dtype]) or 1
    size, tile = rows * side * DTYPES[dtype], max(1, TILE_ELEMENTS // side)
    parts = [data[start : start + size] for start in range(0, data.size, size)]
    row_bytes, native = side * DTYPES[dtype], KNOWN[dtype].native
    return lambda: [kernel.rows(part, native, part.size // row_bytes, side, tile, True, True) for part in parts]


def bandwidth_gb_s(rounds: int) -> float:
    """How fast one thread reads memory: the digest is far faster than that."""
    data = np.ones(256 << 20, dtype=np.uint8)
    row = interleaved({"read": lambda: kernel.digests(data, 1 << 20)}, rounds)["read"]
    return data.size / (row.best_s or 1.0) / 1e9


def measured(side: int, rounds: int, naive_rounds: int) -> dict[str, dict[str, Row]]:
    """Rows by dtype: Assay and blocked torch in turns, the naive calls in fewer."""
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
    """The report."""
    out = [
        f"# Weights, {datetime.date.today().isoformat()}",
        "",
        f"{hardware()}. Kernel: {name()}. One {side} x {side} matrix, normal; CPU time, best of the rounds.",
        "",
        "| dtype | what | CPU, best | Mparam/s | Assay is faster by | wanted | held |",
        "| --- | --- | --: | --: | --: | --: | --- |",
    ]
    for dtype, rows in found.items():
        base = rows["Assay"].best_s or float("nan")
        for what, row in rows.items():
            if what == KERNEL:
                continue
            best = row.best_s or float("nan")
            wanted = WANTED.get((dtype, what))
            held = "" if wanted is None else "yes" if best / base >= wanted else "no"
            ratio = "" if what == "Assay" else f"{best / base:.1f}x"
            speed = side * side / best / 1e6
            limit = f">= {wanted:.0f}x" if wanted else ""
            out.append(f"| {dtype} | {what} | {1e3 * best:.1f} ms | {speed:,.0f} | {ratio} | {limit} | {held} |")
    out += ["", *speeds(found, side, read_gb_s)]
    return [*out, "", f"Read bandwidth of one thread: {read_gb_s:.1f} GB/s.", "", *NOTES]


def speeds(found: dict[str, dict[str, Row]], side: int, read_gb_s: float) -> list[str]:
    """The table of bytes a second."""
    out = [
        "| dtype | Assay, GB/s a core | share of read bandwidth | first pass of the kernel alone | wanted | held |",
        "| --- | --: | --: | --: | --: | --- |",
    ]
    for dtype, rows in found.items():
        size = DTYPES[dtype] * side * side
        speed, alone = (size / (rows[what].best_s or float("nan")) / 1e9 for what in ("Assay", KERNEL))
        wanted = WANTED_GB_S.get(dtype)
        limit = f">= {wanted:.1f}" if wanted else ""
        held = "" if wanted is None else "yes" if alone >= wanted else "no"
        share = f"{100 * speed / read_gb_s:.0f} %"
        out.append(f"| {dtype} | {speed:.2f} | {share} | {alone:.2f} | {limit} | {held} |")
    return out


NOTES = [
    "Assay: every statistic, quantiles and histogram exact, planning and finalizing included; float32 in two passes.",
    "Blocked torch: light statistics and row-wise quantization only. Naive torch: one call a figure over the whole",
    "tensor, quantiles by sorting. Neither computes column norms, denormals, pruning curves or content digests.",
]


def main() -> None:
    """Measures and writes the report."""
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
