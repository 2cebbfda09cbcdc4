"""Read TorchScript files as documents, each in a separate process, and compare them with the live models.

python benchmarks/torchscript.py [--filter REGEX] [--jobs N] [--limit SECONDS] [--json FILE] [--keep DIR] [--plain]
    [--trust]

Every file is made on the spot. A file with stored inputs is read without any; other files get those of the live
model, and are read once more without, to check what is inferred.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torchscript_models import entries
from torchscript_models.comparison import CHECKS, GOOD, NEAR
from zoo import run


def main() -> int:
    """Examine the chosen files and print the table; return 0 if every check that must pass passed."""
    options = _options()
    torch.set_num_threads(1)
    chosen = [entry for entry in entries() if re.search(options.filter, entry.name)]
    if options.list:
        print("\n".join(f"{entry.name:42} {entry.literal}" for entry in chosen))
        return 0
    importlib.import_module("transformers.modeling_utils")  # once here, and not in every child process
    from torchscript_models.examination import examine

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(options.keep or scratch).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        job = partial(examine, folder=folder, plain=options.plain, trust=options.trust)
        rows = run(chosen, job, options.jobs, options.limit, line)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    print("\n".join([HEADER, *map(line, rows), "", *totals(rows)]))
    return 0 if all(not row["broken"] and _passed(row) for row in rows) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare what TorchScript files tell with the live models.")
    parser.add_argument("--filter", default="", help="run only names that match this regular expression")
    parser.add_argument("--jobs", type=int, default=2, help="number of parallel processes")
    parser.add_argument("--limit", type=float, default=120.0, help="time limit per file, in seconds")
    parser.add_argument("--json", help="write all rows to this file")
    parser.add_argument("--keep", help="keep the TorchScript files in this directory")
    parser.add_argument("--plain", action="store_true", help="only make the files and record the live models")
    parser.add_argument("--trust", action="store_true", help="let torch.jit run the files, as a baseline")
    parser.add_argument("--list", action="store_true", help="print names and inputs, and exit")
    return parser.parse_args()


HEADER = f"{'file':42}{'CPU s':>7} " + "".join(f"{name:>10}" for name in CHECKS)


def line(row: dict[str, Any]) -> str:
    """One row of the table, with the first thing that is wrong."""
    if row["broken"]:
        return f"{row['name']:42} not compared: {row['broken']}"
    seconds = "–" if row["cpu_s"] is None else f"{row['cpu_s']:.2f}"
    verdicts = "".join(f"{row['checks'].get(name, ['–'])[0]:>10}" for name in CHECKS)
    wrong = (f"{name}: {detail}" for name, (verdict, detail) in row["checks"].items() if verdict not in GOOD)
    return f"{row['name']:42}{seconds:>7} {verdicts}  {next(wrong, '')}".rstrip()


def totals(rows: list[dict[str, Any]]) -> list[str]:
    """How many files were made and compared, and how many passed each check."""
    compared = [row for row in rows if not row["broken"]]
    modes = [row["reference"] for row in compared]
    texts = [
        f"files made and compared with a live model: {len(compared)}/{len(rows)} "
        f"({modes.count('meta')} on shapes, {len(modes) - modes.count('meta')} with data)"
    ]
    for name in CHECKS:
        verdicts = [row["checks"][name][0] for row in compared if name in row["checks"]]
        applicable = [verdict for verdict in verdicts if verdict != "–"]
        passed, near = sum(verdict in GOOD for verdict in applicable), applicable.count(NEAR)
        texts.append(f"{name:12}{passed:>5}/{len(applicable)}" + (f", {near} of them nearly" if near else ""))
    seconds = sorted(row["cpu_s"] for row in compared if row["cpu_s"] is not None)
    if seconds:
        texts.append(f"CPU seconds per file: median {seconds[len(seconds) // 2]:.2f}, most {seconds[-1]:.2f}")
    return texts


def _passed(row: dict[str, Any]) -> bool:
    return all(verdict in GOOD for name, (verdict, _) in row["checks"].items() if CHECKS[name])


if __name__ == "__main__":
    sys.exit(main())
