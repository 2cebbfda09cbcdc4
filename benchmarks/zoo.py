"""Run every architecture of the zoo through Assay, each in a separate process, and print which checks passed.

python benchmarks/zoo.py [--only REGEX] [--jobs N] [--limit SECONDS] [--json FILE] [--plain]
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import re
import select
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from zoo_models import entries
from zoo_models.registry import Entry

GOOD = {"yes", "same", "–"}
Job = Callable[[Entry], dict[str, Any]]
"""Examines an entry in a child process: a row of plain data, with `broken` set if the entry does not run."""


def main() -> int:
    """Run the chosen entries; return 0 if every check of every entry passed."""
    options = _options()
    torch.set_num_threads(1)
    chosen = [entry for entry in entries() if re.search(options.only, entry.name)]
    if options.list:
        print("\n".join(f"{entry.name}  ({entry.family})" for entry in chosen))
        return 0
    _preload(options.plain)
    results = run(chosen, partial(_checked, plain_only=options.plain), options.jobs, options.limit, _progress)
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    print(table(results))
    return 0 if all(not row["broken"] and _passed(row) for row in results) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run every architecture of the zoo through Assay.")
    parser.add_argument("--only", default="", help="run only names that match this regular expression")
    parser.add_argument("--jobs", type=int, default=2, help="number of parallel processes")
    parser.add_argument("--limit", type=float, default=120.0, help="time limit per entry, in seconds")
    parser.add_argument("--json", help="write all results to this file")
    parser.add_argument("--plain", action="store_true", help="only build and run each model, without Assay")
    parser.add_argument("--list", action="store_true", help="print the names and exit")
    return parser.parse_args()


def _preload(plain_only: bool) -> None:
    """Import once what every child process would otherwise import."""
    names = ["transformers.modeling_utils", "zoo_models.oracle"]
    if not plain_only:
        names += ["zoo_models.checks", "assay.recorder.passes", "assay.analysis.uniques", "assay.analysis.cost"]
    for name in names:
        importlib.import_module(name)


def run(
    chosen: list[Entry], job: Job, jobs: int, limit_s: float, progress: Callable[[dict[str, Any]], str]
) -> list[dict[str, Any]]:
    """One row per entry, in the order of the entries; `progress` returns the line printed for each."""
    rows: dict[str, dict[str, Any]] = {}
    waiting, running = list(chosen), {}
    while waiting or running:
        while waiting and len(running) < jobs:
            child = Child(waiting.pop(0), job, limit_s)
            running[child.pipe] = child
        ready, _, _ = select.select(list(running), [], [], 0.5)
        for child in list(running.values()):
            row = child.poll(child.pipe in ready)
            if row is not None:
                del running[child.pipe]
                rows[child.entry.name] = row
                print(f"[{len(rows)}/{len(chosen)}] {progress(row)}", file=sys.stderr, flush=True)
    return [rows[entry.name] for entry in chosen]


class Child:
    """One entry in a forked process, with a deadline."""

    def __init__(self, entry: Entry, job: Job, limit_s: float) -> None:
        self.entry, self.began, self.limit = entry, time.monotonic(), limit_s
        self.pipe, write = os.pipe()
        self.data = b""
        self.process = os.fork()
        if self.process == 0:
            _work(entry, write, job)
        os.close(write)

    def poll(self, readable: bool) -> dict[str, Any] | None:
        """The row once the child has ended, crashed or timed out; None while it runs."""
        if readable:
            part = os.read(self.pipe, 1 << 16)
            self.data += part
            if not part:
                return self._end()
        if time.monotonic() - self.began > self.limit:
            os.kill(self.process, signal.SIGKILL)
            return self._end(f"more than {self.limit:g} s")
        return None

    def _end(self, why: str = "") -> dict[str, Any]:
        os.close(self.pipe)
        _, status = os.waitpid(self.process, 0)
        row = {"name": self.entry.name, "family": self.entry.family, "seconds": time.monotonic() - self.began}
        if why or not self.data:
            return {**row, "broken": why or f"the process ended with status {status}", "checks": {}}
        return {**row, **json.loads(self.data)}


def _work(entry: Entry, write: int, job: Job) -> None:
    """Run the job in the child: output is discarded, and the row goes through the pipe."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    try:
        row = job(entry)
    except BaseException as error:  # noqa: BLE001  the parent reports any error
        row = {"broken": f"{type(error).__name__}: {error}"[:400], "checks": {}}
    with os.fdopen(write, "wb") as pipe:
        pipe.write(json.dumps(row).encode())
    os._exit(0)


def _checked(entry: Entry, *, plain_only: bool) -> dict[str, Any]:
    """The verdicts of all checks, unless the entry does not run without Assay."""
    from zoo_models import oracle

    broken = oracle.plain(entry)
    if broken or plain_only:
        return {"broken": broken, "checks": {}}
    from zoo_models import checks

    return {"broken": "", "checks": checks.check(entry)}


def table(results: list[dict[str, Any]]) -> str:
    """A table of passed checks by family, then every failed check."""
    names = list(next((row["checks"] for row in results if row["checks"]), {}))
    families = list(dict.fromkeys(row["family"] for row in results))
    lines = [_cells("family", "entries", *names)]
    for family in [*families, ""]:
        rows = [row for row in results if not family or row["family"] == family]
        lines.append(_cells(family or "all", str(len(rows)), *(_share(rows, name) for name in names)))
    lines.append("")
    for row in results:
        if row["broken"]:
            lines.append(f"{row['name']}: not run: {row['broken']}")
        lines += [
            f"{row['name']}: {name}: {verdict}: {detail}"
            for name, (verdict, detail) in row["checks"].items()
            if verdict not in GOOD
        ]
    return "\n".join(lines)


def _cells(first: str, *others: str) -> str:
    return f"{first:22}" + "".join(f"{other:>12}" for other in others)


def _share(rows: list[dict[str, Any]], name: str) -> str:
    """Passed checks of applicable checks."""
    verdicts = Counter(row["checks"][name][0] for row in rows if name in row["checks"])
    passed = sum(count for verdict, count in verdicts.items() if verdict in GOOD - {"–"})
    applicable = sum(count for verdict, count in verdicts.items() if verdict != "–")
    return f"{passed}/{applicable}" if applicable else "–"


def _passed(row: dict[str, Any]) -> bool:
    return all(verdict in GOOD for verdict, _ in row["checks"].values())


def _progress(row: dict[str, Any]) -> str:
    marks = row["broken"] or " ".join(f"{name}={verdict}" for name, (verdict, _) in row["checks"].items())
    return f"{row['name']} {row['seconds']:.1f} s {marks}"


if __name__ == "__main__":
    sys.exit(main())
