"""Shared by the benchmarks: CPU timing in interleaved rounds, jobs in separate processes, tables.

A benchmark's parent process imports nothing heavy. Each job runs in a child and yields `Row`s. The
rows of a group are compared with its `plain` row.
"""

from __future__ import annotations

import dataclasses
import gc
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from assay import units

ROOT = Path(__file__).resolve().parents[1]
PLAIN = "plain"
"""The row of a group that the rest are compared with."""

Run = Callable[[], object]


@dataclasses.dataclass
class Row:
    """One measurement: its samples in seconds, or the reason why there are none."""

    group: str
    what: str
    samples: list[float] = dataclasses.field(default_factory=list)
    peak_bytes: int | None = None
    why_not: str = ""
    limit_s: float | None = None
    limit_ratio: float | None = None
    limit_bytes: int | None = None

    @property
    def best_s(self) -> float | None:
        """The smallest sample: other processes on the machine only ever add time."""
        return min(self.samples, default=None)

    @property
    def median_s(self) -> float | None:
        """The median sample; None if there is only one."""
        return statistics.median(self.samples) if len(self.samples) > 1 else None


def own_cpu_s() -> float:
    """CPU seconds of this process so far."""
    return time.process_time()


def children_cpu_s() -> float:
    """CPU seconds of the child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(run: Run, clock: Callable[[], float] = own_cpu_s) -> float:
    """CPU seconds of one run, after a garbage collection."""
    gc.collect()
    before = clock()
    run()
    return clock() - before


def interleaved(runs: Mapping[str, Run], rounds: int, clock: Callable[[], float] = own_cpu_s) -> dict[str, Row]:
    """One row per run; the runs alternate, so that a disturbance of the machine affects all alike.

    Each run has one warm-up. If that fails, its row has no samples.
    """
    rows = {name: Row("", name) for name in runs}
    for name, run in runs.items():
        rows[name].why_not = failure(run)
    for _ in range(rounds):
        for name, run in runs.items():
            if not rows[name].why_not:
                rows[name].samples.append(timed(run, clock))
    return rows


def failure(run: Run) -> str:
    """Run once and return the error in one line, or an empty string."""
    try:
        run()
    except Exception as error:  # noqa: BLE001  a peer that fails is a result
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:100] if str(error) else ''}"
    return ""


def peak_bytes() -> int:
    """Peak memory of this process, without what its parent held before the fork."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def environment() -> dict[str, str]:
    """The environment of every measured process: one thread, this source tree with bytecode, no network."""
    known = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    # An installed package has bytecode; without it, every command would compile Assay again.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(known),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "PYTHONWARNINGS": "ignore",
    }


def in_child(script: str, job: str, rounds: int) -> list[Row]:
    """The rows that `script --child job` prints as its last line, or a row with the error if it fails."""
    command = [sys.executable, script, "--child", job, "--rounds", str(rounds)]
    done = subprocess.run(command, env=environment(), cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        errors = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return [Row(job, job, why_not=errors[-1][:160])]
    return [Row(**row) for row in json.loads(done.stdout.splitlines()[-1])]


def give_back(rows: Iterable[Row]) -> None:
    """Print the rows of a child process for its parent."""
    print(json.dumps([dataclasses.asdict(row) for row in rows]))


def hardware(*peers: str) -> str:
    """The processor and the relevant versions, including those of installed `peers`, in one line."""
    command = [sys.executable, "-m", "assay", "env", "--format", "json"]
    facts: dict[str, Any] = json.loads(subprocess.check_output(command, env=environment()))
    cores = f"{facts['cpu'] or 'unnamed processor'}, {facts['cores']} cores, 1 thread used"
    versions = [f"{name} {facts[name]}" for name in ("torch", "transformers") if facts[name]]
    versions += [f"{name} {metadata.version(name)}" for name in peers if importlib.util.find_spec(name)]
    return ", ".join([cores, f"Python {facts['python'].split()[0]}", *versions])


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown, without the columns that are empty in all rows."""
    plain = {row.group: row.best_s for row in rows if row.what == PLAIN}
    header = ["", "tool", "CPU, best", "median", f"÷ {PLAIN}", "peak memory", "target", "met"]
    lines = [_cells(row, plain.get(row.group)) for row in rows]
    kept = [i for i in range(len(header)) if any(line[i] not in ("", units.UNKNOWN) for line in lines)]
    text = [_line([header[i] for i in kept]), _line(["---" if i < 2 else "--:" for i in kept])]
    text += [_line([line[i] for i in kept]) for line in lines]
    reasons = [f"- {row.group}, {row.what}: {row.why_not}" for row in rows if row.why_not]
    return "\n".join([*text, *(["", *reasons] if reasons else [])])


def _cells(row: Row, plain_s: float | None) -> list[str]:
    ratio = row.best_s / plain_s if row.best_s is not None and plain_s and row.what != PLAIN else None
    checks = [
        (row.best_s, row.limit_s, units.seconds),
        (ratio, row.limit_ratio, lambda value: f"{units.ratio(value)}×"),
        (row.peak_bytes, row.limit_bytes, units.size),
    ]
    targets = [(value, limit, shown) for value, limit, shown in checks if limit is not None]
    met = all(value is not None and value <= limit for value, limit, _ in targets)
    return [
        row.group,
        row.what,
        units.seconds(row.best_s),
        units.seconds(row.median_s),
        units.ratio(ratio),
        units.size(row.peak_bytes),
        ", ".join(f"≤ {shown(limit)}" for _, limit, shown in targets),
        ("yes" if met else "no") if targets else "",
    ]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
